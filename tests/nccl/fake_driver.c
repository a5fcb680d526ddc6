/* A libcuda.so.1 in whose view one address is device memory, and another is managed. */

#include "fake_driver.h"

#include <string.h>

int cuPointerGetAttribute(void* data, int attribute, unsigned long long pointer) {
  enum { kMemoryType = 2, kIsManaged = 8, kDevice = 2 };
  const unsigned device = kDevice, managed = pointer == FAKE_MANAGED_ADDRESS;
  if (pointer != FAKE_DEVICE_ADDRESS && !managed) return 1;
  if (attribute == kMemoryType) memcpy(data, &device, sizeof device);
  if (attribute == kIsManaged) memcpy(data, &managed, sizeof managed);
  return 0;
}
