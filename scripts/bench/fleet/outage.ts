import { setTimeout as sleep } from "node:timers/promises";
import { rounded } from "../support/bench.ts";
import { startMeter } from "../support/processes.ts";
import { mergeFigures, type TakenFigures } from "./figures.ts";
import type { FleetLab } from "./lab.ts";
import { describeSamples } from "./phases.ts";

/** Hosts that are not back by then are lost for good, as far as this bench can see. */
const backSecondsMax = 1200;

/**
 * Kills core, or cuts its network, for some minutes, and measures the return of the fleet: a host is back with its first accepted
 * heartbeat, which it sends up to an interval after it has connected.
 */
export const measureOutage = async (
  lab: FleetLab,
  { hosts, minutes, isNetwork }: { hosts: number; minutes: number; isNetwork: boolean },
) => {
  const { workers } = lab;
  const before = lab.coreMemory().nowMb;
  await workers.take();
  if (isNetwork) {
    await workers.all("ports", []);
    await workers.all("cut", null);
  } else await lab.kill();
  await sleep(minutes * 60_000);
  const down = await workers.take();

  await workers.all("mark", null);
  const meter = startMeter(lab.cpu);
  const startedAt = performance.now();
  if (isNetwork) await workers.all("ports", lab.ingestPorts());
  else await lab.restart();
  const parts: TakenFigures[] = [];
  const reached: {
    connected90?: number;
    connected?: number;
    back90?: number;
    back?: number;
    lastFailure?: number;
  } = {};
  let peakMb = 0;
  for (;;) {
    await sleep(Math.min(1000, 100 + hosts / 10));
    const { figures, connected, accepted } = await workers.take();
    parts.push(figures);
    const seconds = rounded((performance.now() - startedAt) / 1000, 1);
    if (Object.keys(figures.failures).length > 0) reached.lastFailure = seconds;
    if (connected >= hosts * 0.9) reached.connected90 ??= seconds;
    if (connected === hosts) reached.connected ??= seconds;
    if (accepted >= hosts * 0.9) reached.back90 ??= seconds;
    peakMb = Math.max(peakMb, lab.coreMemory().nowMb);
    if (accepted === hosts) reached.back = seconds;
    if (reached.back !== undefined || seconds > backSecondsMax) break;
  }
  const used = meter();
  const { took, failures } = mergeFigures(parts);
  return {
    down_minutes: minutes,
    attempts_while_down: Object.values(down.figures.failures).reduce(
      (sum, count) => sum + count,
      0,
    ),
    all_back: reached.back !== undefined,
    back_seconds: reached.back ?? backSecondsMax,
    back_90_percent_seconds: reached.back90,
    connected_seconds: reached.connected,
    connected_90_percent_seconds: reached.connected90,
    last_failure_seconds: reached.lastFailure,
    full_handshakes: describeSamples(took.connected),
    resumed_handshakes: describeSamples(took.resumed),
    heartbeats: describeSamples(took.heartbeat),
    failures,
    refused: await lab.refusals(),
    core_cpu_ms_each: rounded((used.cpu.core / hosts) * 1000, 2),
    core_mb: {
      before: rounded(before),
      peak: rounded(peakMb),
      peak_ratio: rounded(peakMb / before, 2),
    },
  };
};
