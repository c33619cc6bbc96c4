import { type HostVolume, type VolumeKind, volumeKinds } from "#proto/fleet-health/volume.ts";
import type { SparklineBar } from "#ui/app/design/sparkline.tsx";
import {
  formatBytes,
  formatCountOf,
  formatTimestamp,
  type TimeZone,
} from "#ui/app/format/format.ts";

/** Kinds in words. */
export const kindNames: Readonly<Record<VolumeKind, string>> = {
  otel_span: "spans",
  otel_log: "logs",
  otel_metric: "metrics",
  log_line: "log lines",
  other: "other",
};

/** Envelopes and bytes of a kind. */
export interface KindTotal {
  kind: VolumeKind;
  envelopes: number;
  bytes: number;
}

/** Returns the totals of the kinds that the host sent, over all hours. */
export const kindTotals = ({ hours }: Pick<HostVolume, "hours">): KindTotal[] => {
  const all = hours.flatMap(({ kinds }) => kinds);
  return volumeKinds.flatMap((kind) => {
    const own = all.filter((each) => each.kind === kind);
    const sum = (of: "envelopes" | "payload_bytes") =>
      own.reduce((total, each) => total + each[of], 0);
    return own.length === 0
      ? []
      : [{ kind, envelopes: sum("envelopes"), bytes: sum("payload_bytes") }];
  });
};

/** Returns a bar for each hour. */
export const volumeBars = ({ hours }: Pick<HostVolume, "hours">, zone: TimeZone): SparklineBar[] =>
  hours.map((hour) => {
    const totals = kindTotals({ hours: [hour] });
    const envelopes = totals.reduce((total, each) => total + each.envelopes, 0);
    const parts = totals.map(
      (each) => `${formatCountOf(each.envelopes, "envelope")} of ${kindNames[each.kind]}`,
    );
    return {
      value: envelopes,
      name: `From ${formatTimestamp(hour.from, zone)}: ${parts.length === 0 ? "nothing" : parts.join(", ")}`,
    };
  });

/** Returns what a host sent of a kind, in words. */
export const volumeText = ({ envelopes, bytes }: Omit<KindTotal, "kind">): string =>
  `${formatCountOf(envelopes, "envelope")}, ${formatBytes(bytes)}`;
