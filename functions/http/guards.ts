import type { Scope } from "#proto/operator/scopes.ts";
import type { Core } from "../core.ts";
import {
  authenticateWeb,
  type Operator,
  operatorOf,
  type WebCaller,
} from "../domain/operator/authenticate.ts";
import { Problem } from "../problems.ts";
import type { HttpContext } from "./request.ts";
import type { Guard } from "./route.ts";

/** The parts of core that verify a bridge token. */
export type OperatorCore = Pick<Core, "config" | "db" | "clock">;

/** Admits anyone. The guard test lists by name each route that uses it. */
export const anyone: Guard<null> = { describe: { kind: "open" }, admit: async () => null };

/** Returns the token of `Authorization: Bearer <token>` (RFC 6750). Throws 401 `unauthenticated` without one. */
const bearer = (c: HttpContext): string => {
  const match = /^Bearer ([A-Za-z0-9._~+/=-]{1,4096})$/i.exec(c.req.header("authorization") ?? "");
  if (!match?.[1]) throw new Problem("unauthenticated");
  return match[1];
};

const holderOf = async (find: () => Promise<Operator>, needed: Scope): Promise<Operator> => {
  const operator = await find();
  if (!operator.scopes.includes(needed))
    throw new Problem("forbidden", {
      detail: `This needs the scope ${needed}`,
      extensions: { scope: needed },
    });
  return operator;
};

/** Admits an active person with a valid bridge token who holds `scope`; 403 `forbidden` names the missing scope. */
export const scope = (core: OperatorCore, needed: Scope): Guard<Operator> => ({
  describe: { kind: "scope", scope: needed },
  admit: async (c) => holderOf(await operatorOf(core, bearer(c)), needed),
});

/** Admits as `scope` does; `isAdmitted` asks the database again, for a response that outlives the token. */
export const lastingScope = (
  core: OperatorCore,
  needed: Scope,
): Guard<{ operator: Operator; isAdmitted(): Promise<boolean> }> => ({
  ...scope(core, needed),
  admit: async (c) => {
    const find = await operatorOf(core, bearer(c));
    const isAdmitted = () =>
      holderOf(find, needed).then(
        () => true,
        (error: unknown) => {
          if (error instanceof Problem) return false;
          throw error;
        },
      );
    return { operator: await holderOf(find, needed), isAdmitted };
  },
});

/** Admits as `scope` does, but people alone: what it guards belongs to a person. */
export const personScope = (core: OperatorCore, needed: Scope): Guard<Operator> => ({
  ...scope(core, needed),
  admit: async (c, body) => {
    const operator = await scope(core, needed).admit(c, body);
    if (operator.kind === "workload")
      throw new Problem("forbidden", { detail: "This is for people, not for workloads" });
    return operator;
  },
});

/** Admits web with its own bridge token or with that of an active person, for reports that only web makes. */
export const web = ({ config, db, clock }: OperatorCore): Guard<WebCaller> => ({
  describe: { kind: "web" },
  admit: (c) => authenticateWeb({ db, clock, config }, bearer(c)),
});

/** Admits web itself, with its own bridge token alone. */
export const webItself = (core: OperatorCore): Guard<null> => ({
  describe: { kind: "web_itself" },
  admit: async (c, body) => {
    if ((await web(core).admit(c, body)) !== null)
      throw new Problem("forbidden", { detail: "Only web itself may call this" });
    return null;
  },
});

/** Admits an active person with a bridge token that web made for them. */
export const webPerson = (core: OperatorCore): Guard<Operator> => ({
  describe: { kind: "web_person" },
  admit: async (c, body) => {
    const person = await web(core).admit(c, body);
    if (person === null)
      throw new Problem("forbidden", { detail: "Call this for a person who is signed in" });
    return person;
  },
});
