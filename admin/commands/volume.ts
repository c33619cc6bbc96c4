import { type ReportVolumeResponse, reportVolume } from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import { isUnusual, unusualVolume } from "../../proto/volume.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { type Column, printRows } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "./options.ts";

type Item = ReportVolumeResponse["items"][number];

const columns: readonly Column<Item>[] = [
  { title: "name", value: ({ name, device_id }) => device_id ?? name ?? "(none)" },
  { title: "bytes", value: ({ payload_bytes }) => payload_bytes },
  { title: "envelopes", value: ({ envelopes }) => envelopes },
  { title: "disk bytes", value: ({ disk_bytes }) => disk_bytes },
  { title: "usual bytes a day", value: ({ day }) => day?.usual_bytes },
  {
    title: "note",
    value: ({ day }) => (day && isUnusual(day) ? `${unusualVolume.times}x its usual` : ""),
  },
];

interface VolumeOptions {
  by?: string;
  from?: Instant;
  to?: Instant;
  limit?: number;
}

/** `svc-admin volume`: what sent the most. */
export const volumeAction: Action<VolumeOptions> = async (
  terminal,
  { by, from, to, limit, ...options },
) => {
  const query = withoutUndefined({ by, from: textOfInstant(from), to: textOfInstant(to), limit });
  const { data } = await reportVolume<true>({ client: connect(terminal, options), query });
  await printRows(terminal, options, columns, data.items);
};
