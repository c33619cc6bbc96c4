import { readdirSync, readFileSync } from "node:fs";

/** Memory of a process, from /proc. */
export const memoryOf = (pid: number): { nowMb: number; peakMb: number } => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 102.4) / 10;
  return { nowMb: mb("VmRSS"), peakMb: mb("VmHWM") };
};

// clock ticks of /proc, the same on every Linux there is
const ticksOfSecond = 100;

/** CPU seconds that a process and all its children, ended ones included, have used. */
export const cpuSecondsOf = (pid: number): number => {
  let ticks = ticksOf(pid)?.withEndedChildren ?? 0;
  for (const name of readdirSync("/proc")) {
    const child = /^\d+$/.test(name) ? ticksOf(Number(name)) : undefined;
    if (child?.parent === pid) ticks += child.withEndedChildren;
  }
  return ticks / ticksOfSecond;
};

const ticksOf = (pid: number): { parent: number; withEndedChildren: number } | undefined => {
  try {
    // The name, in parentheses, may hold spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    const [parent = 0, ...times] = [fields[1], ...fields.slice(11, 15)].map(Number);
    return { parent, withEndedChildren: times.reduce((sum, ticks) => sum + ticks, 0) };
  } catch {
    return undefined;
  }
};
