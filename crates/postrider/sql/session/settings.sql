-- Our statements touch few rows each; compiling one takes longer than running it, and the planner
-- would do so for those over tables that were never analyzed.
set jit = off
