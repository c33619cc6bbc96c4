import * as v from "valibot";
import { diagRefusals } from "../management/diag.ts";
import { Id, IsoTimestamp, TimestampOrNull } from "../values.ts";

/** The states of a request for the diagnostics of a host. */
const hostDiagStates = ["pending", "received", "refused", "unanswered"] as const;

/** A request for the diagnostics of a host (docs/telemetry.md). */
export const HostDiagView = v.strictObject({
  id: Id,
  identity_id: Id,
  state: v.picklist(hostDiagStates),
  requested_at: IsoTimestamp,
  answer_by: IsoTimestamp,
  answered_at: TimestampOrNull,
  /** Why the host sent none. */
  refusal: v.nullable(v.picklist(diagRefusals)),
  expires_at: IsoTimestamp,
});

/** A request for the diagnostics of a host. */
export type HostDiagView = v.InferOutput<typeof HostDiagView>;
