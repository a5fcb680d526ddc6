// A library that is called as NCCL is, and is not Tutti's.

const char* standInNccl(void);
const char* standInNccl(void) { return "NCCL version 2.30.7 with nothing"; }
