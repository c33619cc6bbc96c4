/** Watches as core reports them (docs/watches.md). */
import * as v from "valibot";
import { factorKinds } from "../fleet-health/factors.ts";
import {
  Id,
  Identifier,
  Integer,
  IsoTimestamp,
  ListUpTo,
  NumberOrNull,
  OutageView,
  TextOrNull,
  TextUpTo,
  TimestampOrNull,
} from "../values.ts";
import { watchStates } from "./vocabulary.ts";

/** The kinds of events in the history of a watch. */
export const watchEventKinds = [
  "firing",
  "resolved",
  "silenced",
  "unsilenced",
  "delivered",
  "dropped",
] as const;

/** One of `watchEventKinds`. */
export type WatchEventKind = (typeof watchEventKinds)[number];

/** The most watches of a deployment. */
export const watchesMax = 200;

/** The longest time of a watch: a week. */
const watchSecondsMax = 604_800;

/** The longest silence: 30 days. */
const silenceSecondsMax = 2_592_000;

const ReceiverName = Identifier(64);

/** Body of `POST /v1/collector/watches`: fires while more than `more_than` hosts match `filter`, for `for_seconds`. */
export const WatchBody = v.strictObject({
  name: Identifier(120),
  /** A query of the language of `/fleet`; empty for every host. */
  filter: TextUpTo(4096),
  more_than: v.optional(Integer(0, 10_000_000), 0),
  for_seconds: v.optional(Integer(0, watchSecondsMax), 300),
  /** Names of receivers of core's configuration; without one, the watch is seen in core only. */
  receivers: v.optional(
    v.pipe(
      ListUpTo(8, ReceiverName),
      v.check((names) => new Set(names).size === names.length, "must not repeat a name"),
    ),
    [],
  ),
});

/** Body of `POST /v1/collector/watches`. */
export type WatchBody = v.InferOutput<typeof WatchBody>;

/** Body of `PUT /v1/collector/watches/{id}`: the whole watch, and the revision that it changes. */
export const WatchChangeBody = v.strictObject({
  ...WatchBody.entries,
  revision: Integer(1, 2 ** 31 - 1),
});

/** Body of `PUT /v1/collector/watches/{id}`. */
export type WatchChangeBody = v.InferOutput<typeof WatchChangeBody>;

/** Body of `POST /v1/collector/watches/{id}/silence`; 0 seconds end the silence. */
export const SilenceBody = v.strictObject({
  seconds: Integer(0, silenceSecondsMax),
  reason: v.optional(v.nullable(Identifier(500)), null),
});

/** Body of `POST /v1/collector/watches/{id}/silence`. */
export type SilenceBody = v.InferOutput<typeof SilenceBody>;

/** A fact that most hosts of a watch have, and most others do not. */
export const CommonFactor = v.strictObject({
  kind: v.picklist(factorKinds),
  value: v.string(),
  /** Hosts of the watch that have it, and other hosts that do. */
  selected: v.number(),
  others: v.number(),
});

/** A fact that most hosts of a watch have in common. */
export type CommonFactor = v.InferOutput<typeof CommonFactor>;

/** A watch. */
export const Watch = v.strictObject({
  id: Id,
  name: v.string(),
  filter: v.string(),
  more_than: v.number(),
  for_seconds: v.number(),
  receivers: v.array(v.string()),
  revision: v.number(),
  state: v.picklist(watchStates),
  /** Since when more hosts match than allowed; null while no more do. */
  since: TimestampOrNull,
  /** The hosts that matched at `evaluated_at`; null before the first time, and while `fault` says why they cannot be counted. */
  count: NumberOrNull,
  evaluated_at: TimestampOrNull,
  fault: TextOrNull,
  /** When the state last became firing, or ceased to be. */
  changed_at: IsoTimestamp,
  common_factor: v.nullable(CommonFactor),
  /** The watch whose message covers this one. */
  explained_by: v.nullable(Id),
  silence: v.nullable(v.strictObject({ until: IsoTimestamp, by: v.string(), reason: TextOrNull })),
  /** Messages that no receiver has acknowledged yet. */
  waiting_messages: v.number(),
  created_at: IsoTimestamp,
  created_by_name: v.string(),
});

/** A watch. */
export type Watch = v.InferOutput<typeof Watch>;

/** A receiver of core's configuration, without its address. */
const Receiver = v.strictObject({
  name: v.string(),
  kind: v.picklist(["webhook", "alertmanager"]),
});

/** Core's own outage, during which no watch changes its state. */
const heldBy = { held_by: v.optional(OutageView) };

/** Response of `GET /v1/collector/watches`. */
export const WatchList = v.strictObject({
  items: v.array(Watch),
  next_cursor: TextOrNull,
  receivers: v.array(Receiver),
  ...heldBy,
});

/** An event of the history of a watch. */
export const WatchEvent = v.strictObject({
  at: IsoTimestamp,
  kind: v.picklist(watchEventKinds),
  count: NumberOrNull,
  receiver: TextOrNull,
  detail: TextOrNull,
});

/** Response of `GET /v1/collector/watches/{id}`: the newest events first. */
export const WatchDetail = v.strictObject({
  ...Watch.entries,
  ...heldBy,
  history: v.array(WatchEvent),
});

/** Response of `GET /v1/collector/watches/{id}`. */
export type WatchDetail = v.InferOutput<typeof WatchDetail>;

/** The JSON body of a webhook message, by Standard Webhooks. */
export interface WatchMessageBody {
  type: "watch.firing" | "watch.resolved" | "watch.test";
  /** RFC 3339: when it was decided. */
  timestamp: string;
  data: {
    watch: { id: string; name: string; filter: string; more_than: number; for_seconds: number };
    /** The hosts that matched; null for a test of a watch that was never evaluated. */
    count: number | null;
    /** Since when more hosts match than allowed. */
    since: string | null;
    common_factor: CommonFactor | null;
    /** The hosts on `/fleet`, as they were then. */
    url: string;
    /** Its line on the page *Now*, as long as it fires; absent from an earlier core. */
    line?: string;
    /** Why it is resolved, unless the hosts recovered. */
    reason: "changed" | "deleted" | null;
  };
}
