import * as v from "valibot";
import type { Secret } from "#kit/secret.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { fromBase64url, Id, QueryInteger, toBase64url } from "#proto/values.ts";
import type { CoreConfig } from "../config/core-config.ts";
import type { ReadCore } from "../core.ts";
import {
  authenticateWeb,
  type Operator,
  operatorOf,
  type WebCaller,
} from "../domain/operator/authenticate.ts";
import { Problem } from "../problems.ts";
import type { Paged, PageRequest } from "../store/database/statements.ts";
import type { HttpContext } from "./request.ts";
import { bearerOf, ReasonCode, route } from "./route.ts";
import type {
  DocumentedReply,
  Guard,
  Input,
  Parsed,
  Route,
  RouteDefinition,
} from "./route-definition.ts";

/** The parameter of `/{id}`. */
export const IdParams = v.object({ id: Id });

/** A body that has nothing but an optional reason for the audit log. */
const ReasonBody = v.pipe(
  v.strictObject({ reason_code: v.optional(ReasonCode) }),
  v.transform(({ reason_code: reasonCode = null }) => ({ reasonCode })),
);

/** Returns the body of a change that has nothing but an optional reason for the audit log. */
export const reasonBody = (example: string) => ({
  body: ReasonBody,
  bodyAbsentAs: {},
  bodyExample: { reason_code: example },
});

type Schema = v.GenericSchema | undefined;
type ParamsOf<Path> = Path extends `${string}/:id${string}` ? typeof IdParams : undefined;

type BodyOf<View> = View extends v.GenericSchema ? v.InferInput<View> : unknown;

type Described = "bodyAbsentAs" | "bodyExample" | "bodyBytesMax" | "textBody" | "problems";

interface Definition<Params, View, Caller> extends Pick<RouteDefinition<Caller>, Described> {
  /** The people with a scope, or whom a guard admits: by default people with `audit` may read, and people with `admin` may write. */
  by?: Scope | Guard<Caller>;
  /** By default those of a path with `:id`. */
  params?: Params;
  /** The status of the response, unless it is the verb's usual one. */
  status?: number;
  /** The description of the response, the schema of its body, and an example. */
  returns: readonly [description: string, schema?: View, example?: BodyOf<View>];
}

interface Handled<Params, View, Query, Body, Caller> extends Definition<Params, View, Caller> {
  query?: Query;
  body?: Body;
  handle(input: Input<Parsed<Params>, Parsed<Query>, Parsed<Body>, Caller>): Promise<BodyOf<View>>;
}

type ParsedFilter<Filter extends v.ObjectEntries> = v.InferOutput<
  v.StrictObjectSchema<Filter, undefined>
>;

interface Listed<Params, View, Filter extends v.ObjectEntries, Row>
  extends Definition<Params, View, Operator> {
  /** The query fields that select rows. */
  filter?: Filter;
  /** The list's name in its cursors, by default the last part of its path. */
  listName?: string;
  find(
    page: PageRequest,
    input: Input<Parsed<Params>, ParsedFilter<Filter>, undefined, Operator>,
  ): Promise<Paged<Row>>;
  view(row: Row, caller: Operator): unknown;
  /** Returns further members of the response. */
  furtherMembers?(rows: readonly Row[]): object | Promise<object>;
}

/** A route before its resource names it. */
type Draft = Omit<Route, "operationId">;

const replyOf = (description: string, schema: Schema, example: unknown): DocumentedReply => ({
  description,
  ...(schema ? { schema } : {}),
  ...(example === undefined ? {} : { example }),
});

const verbsOf = (core: ReadCore, basePath: string) => {
  const verb =
    (method: Route["method"], usualStatus: number, usualScope: Scope = "admin") =>
    <
      const Path extends string,
      View extends Schema = undefined,
      Params extends Schema = ParamsOf<Path>,
      Query extends Schema = undefined,
      Body extends Schema = undefined,
      Caller = Operator,
    >(
      path: Path,
      summary: string,
      {
        returns: [description, schema, example],
        by = usualScope,
        status = usualStatus,
        problems = [],
        ...definition
      }: Handled<Params, View, Query, Body, Caller>,
    ): Draft => {
      const hasId = path.split("/").includes(":id");
      return route<Caller, Params, Query, Body>({
        ...(hasId ? { params: IdParams as unknown as Params } : {}),
        ...definition,
        method,
        path: basePath + path,
        operationId: "",
        summary,
        guard: typeof by === "string" ? (scope(core, by) as Guard<unknown> as Guard<Caller>) : by,
        replies: { [status]: replyOf(description, schema, example) },
        problems: hasId ? ["not_found", ...problems] : problems,
        handle: async (input) => {
          const body = await definition.handle(input);
          return { status, body: schema && body };
        },
      });
    };
  const get = verb("GET", 200, "audit");
  const cursors = createCursorSeal(core.config);
  return {
    /** Converts positions to cursors, for a report that `list` does not fit. */
    cursors,
    get,
    post: verb("POST", 201),
    put: verb("PUT", 200),
    remove: verb("DELETE", 204),
    /** An action that does not replace the resource. */
    act: verb("POST", 200),
    /** A page of rows, newest first unless `find` orders them. */
    list: <
      const Path extends string,
      Row,
      View extends v.GenericSchema,
      Params extends Schema = ParamsOf<Path>,
      Filter extends v.ObjectEntries = Record<never, v.GenericSchema>,
    >(
      path: Path,
      summary: string,
      {
        filter,
        listName = (basePath + path).split("/").at(-1) ?? "",
        find,
        view,
        furtherMembers,
        ...definition
      }: Listed<Params, View, Filter, Row>,
    ): Draft => {
      const query = v.strictObject({ ...filter, ...listFields });
      return get<Path, View, Params, typeof query>(path, summary, {
        ...definition,
        query,
        handle: async (input) => {
          const { cursor, limit } = input.query;
          const [after = null] = await cursors.open(listName, cursor);
          const { rows, next } = await find({ after, limit }, input as Parameters<typeof find>[1]);
          return {
            items: rows.map((row) => view(row, input.caller)),
            next_cursor: await cursors.seal(listName, next === null ? null : [next]),
            ...(await furtherMembers?.(rows)),
          } as BodyOf<View>;
        },
      });
    },
  };
};

/**
 * Creates the routes of a resource, by their `operationId`. Their paths continue the one of the resource; a path with `:id` documents
 * `not_found`. Each is a route that can be mounted alone.
 */
export const resource = <Drafts extends Readonly<Record<string, Draft>>>(
  core: ReadCore,
  basePath: string,
  draft: (verbs: ReturnType<typeof verbsOf>) => Drafts,
) =>
  Object.fromEntries(
    Object.entries(draft(verbsOf(core, basePath))).map(([operationId, entry]) => [
      operationId,
      { ...entry, operationId },
    ]),
  ) as Readonly<Record<keyof Drafts, Route>>;

/** The query field of a list that can have first what needs somebody. */
export const severityField = {
  sort: v.optional(v.picklist(["severity"], "must be severity")),
};

/** The query fields of every list (docs/api.md): `limit` of 1 to 1000, 100 by default, and the opaque `cursor`. */
export const listFields = {
  limit: v.optional(QueryInteger(1, 1000), "100"),
  cursor: v.optional(v.pipe(v.string("must be given once"), v.maxLength(8192, "must be a cursor"))),
};

/** The secrets that keys of cursors are derived from. */
type CursorSecrets = Pick<CoreConfig, "authTokenSecret" | "authTokenSecretPrevious">;

const macBytes = 16;

type Mac = (list: string, payload: string) => Promise<Uint8Array>;

/**
 * Creates what converts positions in a list to opaque cursors and back. Authenticates cursors by HMAC-SHA-256, and rejects one of another list,
 * order or deployment. Opens those of the previous secret too.
 */
const createCursorSeal = ({ authTokenSecret, authTokenSecretPrevious }: CursorSecrets) => {
  const macOf = createMac(authTokenSecret);
  const macs =
    authTokenSecretPrevious === null ? [macOf] : [macOf, createMac(authTokenSecretPrevious)];
  return {
    async seal(list: string, position: readonly string[] | null) {
      if (position === null) return null;
      const payload = JSON.stringify(position);
      const mac = await macOf(list, payload);
      const text = new TextEncoder().encode(payload);
      const sealed = new Uint8Array(macBytes + text.length);
      sealed.set(mac);
      sealed.set(text, macBytes);
      return toBase64url(sealed);
    },
    /** Returns the position; an empty one without a cursor. Throws 422 `validation_failed` for text that `seal` did not return for this list. */
    async open(list: string, cursor: string | undefined): Promise<string[]> {
      if (cursor === undefined) return [];
      try {
        const sealed = fromBase64url(cursor) ?? new Uint8Array();
        const payload = new TextDecoder().decode(sealed.subarray(macBytes));
        const mac = sealed.subarray(0, macBytes);
        const expected = await Promise.all(macs.map((compute) => compute(list, payload)));
        if (sealed.length <= macBytes || !expected.some((own) => equalInConstantTime(own, mac)))
          throw invalidCursor();
        return JSON.parse(payload) as string[];
      } catch {
        throw invalidCursor();
      }
    },
  };
};

const createMac = (secret: Secret): Mac => {
  const importKey = () =>
    crypto.subtle.importKey(
      "raw",
      new TextEncoder().encode(`svc-cursor-v1\n${secret.reveal()}`),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"],
    );
  // Imported at the first cursor, because in workerd every request creates all lists.
  let key: ReturnType<typeof importKey> | undefined;
  return async (list, payload) => {
    key ??= importKey();
    const data = new TextEncoder().encode(`${list}\n${payload}`);
    return new Uint8Array(await crypto.subtle.sign("HMAC", await key, data)).subarray(0, macBytes);
  };
};

const invalidCursor = (): Problem =>
  new Problem("validation_failed", {
    errors: [{ path: "cursor", message: "is not a cursor of this list and order" }],
  });

const equalInConstantTime = (a: Uint8Array, b: Uint8Array) => {
  let difference = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) difference |= (a[at] ?? 0) ^ (b[at] ?? 0);
  return difference === 0;
};

/** Admits anyone. The guard test lists by name each route that uses it. */
export const anyone: Guard<null> = { describe: { kind: "open" }, admit: async () => null };

const bearer = (c: HttpContext) => {
  const token = bearerOf(c);
  if (token === undefined) throw new Problem("unauthenticated");
  return token;
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
export const scope = (core: ReadCore, needed: Scope): Guard<Operator> => ({
  describe: { kind: "scope", scope: needed },
  admit: async (c) => holderOf(await operatorOf(core, bearer(c)), needed),
});

/** Admits as `scope` does; `isAdmitted` asks the database again, for a response that outlives the token. */
export const lastingScope = (
  core: ReadCore,
  needed: Scope,
): Guard<Operator & { isAdmitted(): Promise<boolean> }> => ({
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
    return { ...(await holderOf(find, needed)), isAdmitted };
  },
});

/** Admits as `scope` does, but people only: the resource belongs to a person. */
export const personScope = (core: ReadCore, needed: Scope): Guard<Operator> =>
  narrowed(scope(core, needed), (operator) => {
    if (operator.kind !== "workload") return operator;
    throw new Problem("forbidden", { detail: "This is for people, not for workloads" });
  });

/** Admits web with its own bridge token or with that of an active person, for reports that only web sends. */
export const web = ({ config, db, clock }: ReadCore): Guard<WebCaller> => ({
  describe: { kind: "web" },
  admit: (c) => authenticateWeb({ db, clock, config }, bearer(c)),
});

/** Admits web itself, with its own bridge token alone. */
export const webItself = (core: ReadCore): Guard<null> => ({
  ...narrowed(web(core), (person) => {
    if (person === null) return null;
    throw new Problem("forbidden", { detail: "Only web itself may call this" });
  }),
  describe: { kind: "web_itself" },
});

/** Admits an active person with a bridge token that web made for them. */
export const webPerson = (core: ReadCore): Guard<Operator> => ({
  ...narrowed(web(core), (person) => {
    if (person !== null) return person;
    throw new Problem("forbidden", { detail: "Call this for a person who is signed in" });
  }),
  describe: { kind: "web_person" },
});

/** Admits those whom a guard admits and `accept` returns. */
const narrowed = <Caller, Accepted>(
  guard: Guard<Caller>,
  accept: (caller: Caller) => Accepted,
): Guard<Accepted> => ({ ...guard, admit: async (c, body) => accept(await guard.admit(c, body)) });
