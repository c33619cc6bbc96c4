import { writeFileSync } from "node:fs";
import { systemClock } from "#kit/clock.ts";
import { memoryOf } from "#scripts/bench/support/processes.ts";
import type { Scene } from "./fault.ts";
import { faultOf } from "./goals.ts";
import { longestPauseMs, type NumberedLoad, untilAllAcked } from "./load.ts";
import type { Step } from "./plan.ts";

/** How long a run waits for a recovery. */
export const drainTimeoutMs = 60_000;

/** Injects the faults of a step, and measures until everything works again. */
export const injectStep = async (
  step: Step,
  context: { scene: Scene; ackTimes: NumberedLoad["ackTimes"]; startedAt: number },
) => {
  const { scene, ackTimes, startedAt } = context;
  const planned = step.filter((part) => part !== undefined);
  await systemClock.sleep(planned[0]?.afterMs ?? 0);
  const name = planned.map(({ fault }) => fault).join(" + ");
  const fault = faultOf(name);
  const begin = performance.now();
  scene.backend.repeats();
  const injections = planned.map(async ({ fault: part, draw, afterMs }, index) => {
    if (index > 0) await systemClock.sleep(afterMs);
    await faultOf(part).inject(scene, draw);
  });
  const errors = (await Promise.allSettled(injections)).flatMap((result) =>
    result.status === "rejected"
      ? [result.reason instanceof Error ? result.reason.message : `${result.reason}`]
      : [],
  );
  const end = performance.now();
  const signal = AbortSignal.timeout(drainTimeoutMs);
  const [ackedAt, exportedAt, ...readyAt] = await Promise.all([
    untilAllAcked(ackTimes, end, signal),
    untilAllAcked([scene.backend.acceptTimes], end, signal),
    ...scene.httpPorts.map((port) => waitForReadiness(port, signal)),
  ]);
  const others = ackTimes.filter(
    (_, index) => index !== fault.concerned?.(scene, planned[0]?.draw ?? 0),
  );
  const measured = fault.pause?.of === "any" ? [others.flat().sort((a, b) => a - b)] : others;
  const ms = (value: number) => (Number.isFinite(value) ? Math.round(value) : null);
  const { items, bytes, timesMax } = scene.backend.repeats();
  return {
    fault: name,
    id: fault.id,
    draws: planned.map(({ draw }) => draw),
    at_seconds: Math.round((begin - startedAt) / 100) / 10,
    lasted_ms: Math.round(end - begin),
    ack_ms: ms(ackedAt - end),
    ready_ms: ms(Math.max(...readyAt) - end),
    export_ms: ms(exportedAt - end),
    pause_ms: Math.round(Math.max(...measured.map((times) => longestPauseMs(times, begin, end)))),
    export_repeats: items,
    export_repeated_bytes: bytes,
    export_times_max: timesMax,
    ...(errors.length === 0 ? {} : { error: errors.join("; ") }),
  };
};

/** Resolves to when `/readyz` and `/readyz/ingest` answered 200; Infinity once `signal` aborts. */
export const waitForReadiness = async (port: number, signal: AbortSignal) => {
  while (!signal.aborted) {
    const paths = ["/readyz", "/readyz/ingest"];
    const requests = paths.map((path) =>
      fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) }),
    );
    const answers = await Promise.all(
      requests.map((request) =>
        request.then(
          ({ ok }) => ok,
          () => false,
        ),
      ),
    );
    if (answers.every(Boolean)) return performance.now();
    await systemClock.sleep(20);
  }
  return Number.POSITIVE_INFINITY;
};

/** Measures the peak memory of processes that may be restarted: overall, and since the last reset, each the largest of one process. */
export const createPeakMeter = () => {
  let overallMb = 0;
  let sinceResetMb = 0;
  const sample = (pid: number) => {
    const { peakMb } = memoryOf(pid);
    overallMb = Math.max(overallMb, peakMb);
    sinceResetMb = Math.max(sinceResetMb, peakMb);
  };
  return {
    sample,
    overall: () => overallMb,
    sinceReset: () => sinceResetMb,
    reset(pids: readonly number[]) {
      for (const pid of pids) sample(pid);
      sinceResetMb = 0;
      // Linux takes 5 for "reset the peak".
      for (const pid of pids) writeFileSync(`/proc/${pid}/clear_refs`, "5");
    },
  };
};
