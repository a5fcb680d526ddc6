"""The sum of an array over all ranks: tutti run -n 3 -- python first_collective.py"""

import numpy
import tutti

with tutti.Communicator.create() as comm:
    mine = numpy.array([1.0, 2.0, 3.0])
    total = comm.all_reduce(mine)
    print(f"rank {comm.rank} of {comm.size}: the sum is {total}")
