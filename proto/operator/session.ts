import * as v from "valibot";
import { Id, IsoTimestamp, WholeNumber } from "../values.ts";
import { scopes } from "./scopes.ts";

/** Response of web's `GET /api/session`: the person who is signed in, and their current scopes. */
export const Session = v.object({
  user: v.object({ user_id: Id, email: v.string(), display_name: v.string() }),
  scopes: v.array(v.picklist(scopes)),
  expires_at: IsoTimestamp,
  /** The same by web's clock, for a machine whose clock is wrong. */
  expires_in_seconds: WholeNumber(),
  chat_enabled: v.boolean(),
  provider_name: v.string(),
});

/** Response of web's `GET /api/session`. */
export type Session = v.InferOutput<typeof Session>;
