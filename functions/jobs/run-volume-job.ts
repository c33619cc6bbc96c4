import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { createVolumeKeeper } from "../domain/volume/keep-volume.ts";

const intervalMs = 60_000;

/** Keeps the volume of hosts until the signal aborts (docs/volume.md). */
export const runVolumeJob = (core: Pick<Core, "db" | "clock" | "log">, signal: AbortSignal): Promise<void> =>
  runEvery({ name: "volume", intervalMs, clock: core.clock, signal, log: core.log }, createVolumeKeeper(core));
