import * as v from "valibot";
import { Identifier } from "../../proto/management/text.ts";
import { webSessionId } from "../../proto/operator/bridge-token.ts";
import { Id } from "../../proto/values.ts";

/** The parameter of `/{id}`. */
export const IdParams = v.object({ id: Id });

/** The code of a reason, for the audit log. */
export const ReasonCode = v.pipe(
  v.string("must be a string"),
  v.regex(/^[a-z][a-z0-9_]{0,63}$/, "must match ^[a-z][a-z0-9_]{0,63}$"),
);

/** The reason of an operator's change, for the audit log. */
export const ReasonBody = v.strictObject({ reason_code: v.optional(ReasonCode) });

/** A name of an operator's choice: 1 to 120 characters. */
export const Name = Identifier(120);

/** The address of a caller, as web saw it. */
export const RemoteAddress = v.pipe(v.string("must be an IP address"), v.ip("must be an IP address"));

/** The id of a session at web. */
export const WebSessionId = v.pipe(v.string(), v.regex(webSessionId, "must be the id of a session at web"));
