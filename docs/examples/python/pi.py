"""Pi as an integral, as mpi4py's tutorial computes it: tutti run -n 4 -- python pi.py 1000000"""

import sys

import numpy
import tutti

comm = tutti.Communicator.create()

steps = comm.broadcast(numpy.array([int(sys.argv[1]) if comm.rank == 0 else 0]))[0]
x = (numpy.arange(comm.rank, steps, comm.size) + 0.5) / steps
part = numpy.array([(4.0 / (1.0 + x * x)).sum() / steps])

pi = comm.reduce(part, root=0)
if pi is not None:
    print(f"pi is {pi[0]:.10f}, by {comm.size} ranks")
comm.close()
