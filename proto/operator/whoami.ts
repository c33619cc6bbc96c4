import * as v from "valibot";
import { Id } from "../values.ts";
import { scopes } from "./scopes.ts";

/** Response of `GET /v1/whoami`: the caller and their current scopes. */
export const Whoami = v.strictObject({
  user_id: Id,
  email: v.string(),
  scopes: v.array(v.picklist(scopes)),
});
