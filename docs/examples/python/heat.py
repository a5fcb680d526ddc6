"""Heat on a ring of cells, each rank with a part of it: tutti run -n 3 -- python heat.py 60

Each step needs the neighbours' outermost cells: a halo exchange. Its calls are a group, so that
sends and receives in all directions are under way at once.
"""

import sys

import numpy
import tutti

CELLS, SHARE = 96, 0.2

if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
    sys.exit("usage: tutti run -n RANKS -- python heat.py STEPS, a whole number")

comm = tutti.Communicator.create()
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
mine = CELLS // comm.size
assert mine * comm.size == CELLS, f"{CELLS} cells are no equal parts for {comm.size} ranks"

cells = numpy.zeros(mine + 2)  # with a cell of each neighbour
if comm.rank == 0:
    cells[1] = 1000.0
for _ in range(int(sys.argv[1])):
    with tutti.group():
        comm.send(cells[1:2], left)
        comm.send(cells[-2:-1], right)
        comm.receive(cells[-1:], right)
        comm.receive(cells[:1], left)
    cells[1:-1] += SHARE * (cells[:-2] - 2 * cells[1:-1] + cells[2:])

everything = comm.gather(cells[1:-1], root=0)
if everything is not None:
    print(f"after {sys.argv[1]} steps: {everything.sum():.6f} in all, {everything.max():.6f} at most")
comm.close()
