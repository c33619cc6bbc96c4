import * as v from "valibot";
import { Id } from "../values.ts";
import { scopes } from "./scopes.ts";

/** Answer of `GET /v1/whoami` (spec, "Whoami response"): the caller, and the scopes held at this moment. */
export const Whoami = v.strictObject({ user_id: Id, email: v.string(), scopes: v.array(v.picklist(scopes)) });
