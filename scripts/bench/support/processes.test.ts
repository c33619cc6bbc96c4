import { expect, it } from "vitest";
import { cpuSecondsOf, parseProcessTimes } from "./processes.ts";

it("includes grandchildren and leaves out other processes", () => {
  const processes = [
    { pid: 10, parent: 1, ticks: 100 },
    { pid: 11, parent: 10, ticks: 20 },
    { pid: 12, parent: 11, ticks: 3 },
    { pid: 13, parent: 10, ticks: 7 },
    { pid: 20, parent: 1, ticks: 5000 },
  ];
  expect(cpuSecondsOf(10, processes)).toBe(1.3);
});

it("is zero for a process that has ended", () => {
  expect(cpuSecondsOf(10, [])).toBe(0);
});

it("is that of this process when it reads /proc", () => {
  expect(cpuSecondsOf(process.pid)).toBeGreaterThan(0);
});

it("counts user and system time of the process and of its ended children, whatever its name contains", () => {
  const stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 30 4 20 0 11 0 5 6 7";
  expect(parseProcessTimes(stat)).toEqual({ pid: 42, parent: 7, ticks: 154 });
});
