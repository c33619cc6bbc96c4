import { setTimeout as sleep } from "node:timers/promises";
import { quantile } from "../../lab/quantile.ts";
import { rounded } from "../support/bench.ts";
import { mergeFigures, type TakenFigures } from "./figures.ts";
import type { FleetLab } from "./lab.ts";

/** Returns median, 99th percentile and largest of samples in milliseconds; zeros without samples. */
export const describeSamples = (samples: Float64Array = new Float64Array()) => {
  const at = (fraction: number) => rounded(quantile(samples, fraction) || 0, 1);
  return {
    count: samples.length,
    p50: at(0.5),
    p99: at(0.99),
    max: rounded(samples.at(-1) ?? 0, 1),
  };
};

/** Waits until every host is connected, or has had a heartbeat accepted, or `secondsMax` have passed. */
export const untilAll = async (
  lab: FleetLab,
  state: "connected" | "accepted",
  { hosts, secondsMax }: { hosts: number; secondsMax: number },
): Promise<{ figures: TakenFigures; seconds: number; count: number }> => {
  const startedAt = performance.now();
  const parts: TakenFigures[] = [];
  for (;;) {
    const { figures, [state]: count } = await lab.workers.take();
    parts.push(figures);
    const seconds = (performance.now() - startedAt) / 1000;
    if (count === hosts || seconds > secondsMax)
      return { figures: mergeFigures(parts), seconds, count };
    await sleep(200);
  }
};
