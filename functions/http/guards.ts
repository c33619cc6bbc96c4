import type { Scope } from "../../proto/operator/scopes.ts";
import type { Core } from "../core.ts";
import { type AdmittedToken, createAdmitToken } from "../domain/enrollment/admit-token.ts";
import type { RefusingCore } from "../domain/enrollment/refuse.ts";
import { authenticateOperator, authenticateWeb, type WebCaller } from "../domain/operator/authenticate.ts";
import type { Operator } from "../domain/operator/operator.ts";
import { Problem } from "../problems.ts";
import type { HttpContext } from "./request.ts";
import type { Guard } from "./route.ts";

/** What the bridge token's check needs. */
export type OperatorCore = Pick<Core, "config" | "db" | "clock">;

/** Anyone may call. A route that uses it is listed by name in the guard test. */
export const open: Guard<null> = { describe: { kind: "open" }, admit: async () => null };

/** The token of `Authorization: Bearer <token>` (RFC 6750); 401 `unauthenticated` without one. */
export const bearer = (c: HttpContext): string => {
  const match = /^Bearer ([A-Za-z0-9._~+/=-]{1,4096})$/i.exec(c.req.header("authorization") ?? "");
  if (!match?.[1]) throw new Problem("unauthenticated");
  return match[1];
};

/** An active person with a valid bridge token who holds `scope`; 403 `forbidden` names the missing scope. */
export const scope = ({ config, db, clock }: OperatorCore, needed: Scope): Guard<Operator> => ({
  describe: { kind: "scope", scope: needed },
  admit: async (c) => {
    const operator = await authenticateOperator({ db, clock, secret: config.authTokenSecret }, bearer(c));
    if (!operator.scopes.includes(needed))
      throw new Problem("forbidden", { detail: `This needs the scope ${needed}`, extensions: { scope: needed } });
    return operator;
  },
});

/** Web itself, or web in the name of an active person: only for what web alone has to say. */
export const web = ({ config, db, clock }: OperatorCore): Guard<WebCaller> => ({
  describe: { kind: "web" },
  admit: (c) => authenticateWeb({ db, clock, secret: config.authTokenSecret }, bearer(c)),
});

/** A bootstrap token that may be used from here; every refusal is counted and audited, a missing token's too. */
export const bootstrapToken = (core: RefusingCore): Guard<AdmittedToken> => {
  const admitToken = createAdmitToken(core);
  return {
    describe: { kind: "bootstrap_token" },
    admit: (c) => {
      const raw = /^Bearer ([!-~]{1,4096})$/i.exec(c.req.header("authorization") ?? "")?.[1] ?? null;
      return admitToken(raw, c.get("origin"));
    },
  };
};
