import * as v from "valibot";
import { Id, Moment } from "../values.ts";
import { scopes } from "./scopes.ts";

/** Answer of web's `GET /api/session` (contract, section 12): who is signed in, and what they hold at this moment. */
export const Session = v.object({
  user: v.object({ user_id: Id, email: v.string(), display_name: v.string() }),
  scopes: v.array(v.picklist(scopes)),
  expires_at: Moment,
  chat_enabled: v.boolean(),
  provider_name: v.string(),
});

/** Answer of web's `GET /api/session`. */
export type Session = v.InferOutput<typeof Session>;
