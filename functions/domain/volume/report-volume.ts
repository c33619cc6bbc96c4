import type { ReadCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import {
  findDiskOfDays,
  findHostsOfVolume,
  findLargest,
  findSeries,
  type HostOfVolume,
  type StoredVolume,
  type VolumeRange,
  type VolumeSplit,
} from "#functions/store/volume/report.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { volumeDaysMax, volumeHoursDays } from "#proto/volume.ts";

/** A part of a volume: its share on disk, and for hosts their names. */
export interface VolumePart extends StoredVolume {
  name: string | null;
  diskBytes: number | null;
  host?: HostOfVolume | undefined;
}

/** What core stored in a range. */
interface VolumeOfRange {
  range: VolumeRange;
  stepMs: number;
  series: (StoredVolume & { fromMs: number })[];
  total: StoredVolume;
  count: number;
  parts: VolumePart[];
  retentionDays: number | null;
  diskBytes: number | null;
}

/** The disk of telemetry is measured on whole days for which `ingest_hour` still has hours. */
const measuredDays = 2;

/** Returns what core stored of all hosts over time, and the parts of a split with the most bytes. Throws 422 `validation_failed`. */
export const reportVolumeOf = async (
  { db, clock, config }: ReadCore,
  split: VolumeSplit,
  asked: { fromMs: number; toMs: number; limit: number },
): Promise<VolumeOfRange> => {
  const now = clock.now();
  const range = rangeOf(split, asked, now);
  const stepMs =
    keepsHours(range, now) && range.toMs - range.fromMs <= volumeHoursDays * dayMs ? hourMs : dayMs;
  const today = Math.floor(now / dayMs);
  const [found, largest, disk] = await Promise.all([
    findSeries(db, range, stepMs),
    findLargest(db, split, range, asked.limit),
    findDiskOfDays(db, { today, days: measuredDays }),
  ]);
  const names = split.by === "host" ? largest.parts.flatMap(({ name }) => name ?? []) : [];
  const hosts = await findHostsOfVolume(db, names);
  const retentionDays = config.ingest?.retentionDays || null;
  // The rest of the last hour or day, which is still to come, does not lower the rate.
  const lastedMs = Math.max(hourMs, Math.min(range.toMs, now) - range.fromMs);
  const diskOf = ({ payloadBytes }: StoredVolume) => {
    if (retentionDays === null || disk.payloadBytes === 0) return null;
    const bytesPerDay = (payloadBytes * dayMs) / lastedMs;
    return Math.round(bytesPerDay * retentionDays * (disk.diskBytes / disk.payloadBytes));
  };
  return {
    range,
    stepMs,
    series: stepsOf(range, stepMs).map((fromMs) => ({
      fromMs,
      ...(found.get(fromMs) ?? { envelopes: 0, payloadBytes: 0 }),
    })),
    total: largest.total,
    count: largest.count,
    parts: largest.parts.map((part) => ({
      ...part,
      diskBytes: diskOf(part),
      host: part.name === null ? undefined : hosts.get(part.name),
    })),
    retentionDays,
    diskBytes: diskOf(largest.total),
  };
};

/** Returns the start of each step in a range. */
const stepsOf = ({ fromMs, toMs }: VolumeRange, stepMs: number): number[] => {
  const first = fromMs - (fromMs % stepMs);
  const count = Math.ceil((toMs - first) / stepMs);
  return Array.from({ length: count }, (_, step) => first + step * stepMs);
};

const keepsHours = ({ fromMs }: VolumeRange, now: number) =>
  Math.floor(fromMs / dayMs) >= Math.floor(now / dayMs) - volumeHoursDays;

const rangeOf = (split: VolumeSplit, asked: VolumeRange, now: number): VolumeRange => {
  const hours = widen(asked, hourMs);
  const range = split.by !== "source" && keepsHours(hours, now) ? hours : widen(asked, dayMs);
  if (range.fromMs >= range.toMs) throw invalid("must be before to");
  const days = split.by === "kind" ? volumeDaysMax.kind : volumeDaysMax.others;
  if (range.toMs - range.fromMs > (days + 1) * dayMs)
    throw invalid(`must be at most ${days} days before to`);
  return range;
};

/** Extends a range to whole steps. */
const widen = ({ fromMs, toMs }: VolumeRange, stepMs: number): VolumeRange => ({
  fromMs: Math.floor(fromMs / stepMs) * stepMs,
  toMs: Math.ceil(toMs / stepMs) * stepMs,
});

const invalid = (message: string) =>
  new Problem("validation_failed", { errors: [{ path: "from", message }] });
