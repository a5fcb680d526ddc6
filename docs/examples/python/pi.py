"""Pi as an integral, as mpi4py's tutorial computes it: tutti run -n 4 -- python pi.py 1000000"""

import sys

import numpy
import tutti

if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or int(sys.argv[1]) == 0:
    sys.exit("usage: tutti run -n RANKS -- python pi.py STEPS, a whole number from 1 on")

comm = tutti.Communicator.create()

steps = comm.broadcast(numpy.array([int(sys.argv[1]) if comm.rank == 0 else 0]))[0]
x = (numpy.arange(comm.rank, steps, comm.size) + 0.5) / steps
part = numpy.array([(4.0 / (1.0 + x * x)).sum() / steps])

pi = comm.reduce(part, root=0)
if pi is not None:
    print(f"pi is {pi[0]:.10f}, by {comm.size} ranks")
comm.close()
