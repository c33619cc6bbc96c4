import * as v from "valibot";
import { webSessionId } from "#proto/operator/bridge-token.ts";
import { Identifier } from "#proto/values.ts";

/** A name that an operator chooses: 1 to 120 characters. */
export const Name = Identifier(120);

/** The address of a caller, as web saw it. */
export const RemoteAddress = v.pipe(
  v.string("must be an IP address"),
  v.ip("must be an IP address"),
);

/** The id of a web session. */
export const WebSessionId = v.pipe(
  v.string(),
  v.regex(webSessionId, "must be the id of a session at web"),
);

/** A URI of the loopback interface only (RFC 8252, 7.3). */
export const LoopbackUri = v.pipe(
  v.string("must be a URL"),
  v.maxLength(512, "must be at most 512 characters"),
  v.regex(
    /^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}\/[\w./-]*$/,
    "must be http://127.0.0.1:<port>/<path> or http://[::1]:<port>/<path>",
  ),
);
