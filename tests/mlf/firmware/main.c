/* Firmware around one model: reads input<n>.bin, runs, writes output<n>.bin and what was counted into count.txt.

   On a Cortex-M under qemu files are those of the host, by semihosting. */
#include <stdint.h>
#include <stdio.h>

#include "tvm_wrapper.h"

#if defined(__ARM_ARCH_7EM__)
/* One instruction is 1 ns under -icount shift=0, and the boards' SysTick has 25 MHz: it tells 40 of them. */
#define INSTRUCTIONS_PER_TICK 40
#define SYST_CSR (*(volatile uint32_t*)0xE000E010)
#define SYST_RVR (*(volatile uint32_t*)0xE000E014)
#define SYST_CVR (*(volatile uint32_t*)0xE000E018)

extern uint32_t stack_top[];
extern void initialise_monitor_handles(void);
int main(void);

static volatile uint32_t periods;

static void tick(void) {
  ++periods;
}

static void leave(uint32_t code) {
  /* SYS_EXIT_EXTENDED with ADP_Stopped_ApplicationExit. */
  uint32_t words[2] = {0x20026, code};
  register uint32_t operation __asm__("r0") = 0x20;
  register uint32_t* given __asm__("r1") = words;
  __asm__ volatile("bkpt 0xAB" : : "r"(operation), "r"(given) : "memory");
}

void _exit(int code) {
  leave((uint32_t)code);
  for (;;) {
  }
}

static void fail(void) {
  _exit(100);
}

void reset(void);
void reset(void) {
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20; /* CPACR: the floating point unit */
  __asm__ volatile("dsb\n isb");
  initialise_monitor_handles();
  _exit(main());
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fail, (uintptr_t)fail, (uintptr_t)fail, (uintptr_t)fail,
    (uintptr_t)fail,      0,                0,               0,               0,               (uintptr_t)fail,
    0,                    0,                (uintptr_t)fail, (uintptr_t)tick,
};

static void start(void) {
  periods = 0;
  SYST_RVR = 0xFFFFFF;
  SYST_CVR = 0;
  SYST_CSR = 7;
}

static uint64_t counted(void) {
  const uint32_t left = SYST_CVR;
  const uint64_t ticks = (uint64_t)periods * 0x1000000 + (0xFFFFFF - left);
  SYST_CSR = 0;
  return ticks * INSTRUCTIONS_PER_TICK;
}
#else
static void start(void) {
}

static uint64_t counted(void) {
  return 0;
}
#endif

static int transfer(const char* kind, int place, void* data, size_t size, const char* mode) {
  char name[32];
  snprintf(name, sizeof name, "%s%d.bin", kind, place);
  FILE* file = fopen(name, mode);
  if (file == 0) {
    return 1;
  }
  const size_t done = mode[0] == 'r' ? fread(data, 1, size, file) : fwrite(data, 1, size, file);
  return fclose(file) != 0 || done != size;
}

int main(void) {
  int failed = TVMWrap_Init();
  for (int k = 0; k < (int)TVMWrap_GetNumInputs(); ++k) {
    failed |= transfer("input", k, TVMWrap_GetInputPtr(k), TVMWrap_GetInputSize(k), "rb");
  }
  start();
  failed |= TVMWrap_Run();
  char text[24];
  const int length = snprintf(text, sizeof text, "%lu", (unsigned long)counted());
  for (int k = 0; k < (int)TVMWrap_GetNumOutputs(); ++k) {
    failed |= transfer("output", k, TVMWrap_GetOutputPtr(k), TVMWrap_GetOutputSize(k), "wb");
  }
  return failed | transfer("count", 0, text, (size_t)length, "wb");
}
