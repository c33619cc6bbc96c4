import * as v from "valibot";
import { Text } from "#proto/values.ts";

/** URNs of the schemas and messages of SCIM 2.0 (RFC 7643, RFC 7644). */
export const scimUrn = {
  user: "urn:ietf:params:scim:schemas:core:2.0:User",
  group: "urn:ietf:params:scim:schemas:core:2.0:Group",
  schema: "urn:ietf:params:scim:schemas:core:2.0:Schema",
  resourceType: "urn:ietf:params:scim:schemas:core:2.0:ResourceType",
  serviceProviderConfig: "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig",
  list: "urn:ietf:params:scim:api:messages:2.0:ListResponse",
  patch: "urn:ietf:params:scim:api:messages:2.0:PatchOp",
  error: "urn:ietf:params:scim:api:messages:2.0:Error",
} as const;

/** The media type of SCIM (RFC 7644, 8.1). */
export const scimMediaType = "application/scim+json";

/** Where core serves SCIM. */
export const scimBasePath = "/scim/v2";

const charactersMax = 320;
/** The most addresses of a user. */
export const emailsMax = 20;
/** Members that one request names; a body of 1 MiB has no more. */
const membersMax = 25_000;

const text = (max = charactersMax) =>
  v.pipe(
    Text,
    v.maxLength(max, `must be at most ${max} characters`),
    v.regex(/^[^\p{Cc}]*$/u, "must have no control characters"),
    v.check((value) => value.isWellFormed(), "must be well-formed text"),
  );
const requiredText = (max?: number) => v.pipe(text(max), v.trim(), v.nonEmpty("must not be empty"));
/** Null and "" unassign an attribute (RFC 7643, 2.5); some clients send them. */
const optionalText = (max?: number) =>
  v.pipe(
    v.nullish(text(max), null),
    v.transform((value) => value?.trim() || null),
  );
/** Entra ID sends booleans as text: "True" and "False". */
const flag = v.pipe(
  v.union(
    [v.boolean(), v.pipe(v.string(), v.toLowerCase(), v.picklist(["true", "false"]))],
    "must be true or false",
  ),
  v.transform((value) => value === true || value === "true"),
);

/** Entra ID sends a single value as a list of one, also as an object with `value`. */
const single = <Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(
    v.unknown(),
    v.transform((given): unknown => {
      if (!Array.isArray(given) || given.length !== 1) return given;
      const [only]: unknown[] = given;
      return typeof only === "object" && only !== null && "value" in only ? only.value : only;
    }),
    schema,
  );

const Name = v.pipe(
  v.nullish(
    v.object(
      { formatted: optionalText(), givenName: optionalText(), familyName: optionalText() },
      "must be an object",
    ),
    {},
  ),
  v.transform((name) => ({
    formatted: name?.formatted ?? null,
    givenName: name?.givenName ?? null,
    familyName: name?.familyName ?? null,
  })),
);

const Email = v.object(
  { value: requiredText(), type: optionalText(40), primary: v.optional(v.nullable(flag), false) },
  "must be an object with value",
);

/** An address of a user. */
export interface ScimEmail {
  value: string;
  type: string | null;
  primary: boolean;
}

/** The name of a user. */
export interface ScimName {
  formatted: string | null;
  givenName: string | null;
  familyName: string | null;
}

/** A user as a client writes it. Other attributes are ignored and not stored. */
export const ScimUserInput = v.object({
  userName: requiredText(),
  externalId: optionalText(255),
  /** Absent: unchanged, or `true` for a new user. */
  active: v.optional(v.nullable(single(flag))),
  displayName: optionalText(),
  name: Name,
  emails: v.pipe(
    v.nullish(v.array(Email, "must be a list"), []),
    v.maxLength(emailsMax, `must be at most ${emailsMax} addresses`),
    v.transform((emails) =>
      (emails ?? []).map(
        ({ value, type, primary }): ScimEmail => ({ value, type, primary: primary === true }),
      ),
    ),
    v.check(
      (emails) => emails.filter(({ primary }) => primary).length < 2,
      "must have one primary address at most",
    ),
  ),
});

/** A user as a client writes it. */
export type ScimUserInput = v.InferOutput<typeof ScimUserInput>;

/** The ids of the users that a value names: a list of members, one member, or one id. */
export const ScimMembers = v.pipe(
  v.union(
    [
      v.pipe(
        v.null(),
        v.transform(() => []),
      ),
      v.pipe(
        v.string(),
        v.transform((value) => [{ value, type: null }]),
      ),
      v.array(v.object({ value: text(64), type: v.nullish(v.string()) })),
      v.pipe(
        v.object({ value: text(64), type: v.nullish(v.string()) }),
        v.transform((member) => [member]),
      ),
    ],
    "must be a list of members with value",
  ),
  v.maxLength(membersMax, `must be at most ${membersMax} members`),
  v.check(
    (members) => members.every(({ type }) => (type ?? "user").toLowerCase() === "user"),
    "must be users: nested groups are not supported",
  ),
  v.transform((members) => members.map(({ value }) => value.toLowerCase())),
);

/** A group as a client writes it. */
export const ScimGroupInput = v.object({
  displayName: requiredText(),
  externalId: optionalText(255),
  members: v.optional(ScimMembers, []),
});

/** A group as a client writes it. */
export type ScimGroupInput = v.InferOutput<typeof ScimGroupInput>;

const Operation = v.object({
  op: v.pipe(
    Text,
    v.toLowerCase(),
    v.picklist(["add", "replace", "remove"], "must be add, replace or remove"),
  ),
  path: v.nullish(Text),
  value: v.optional(v.unknown()),
});

/** The body of a PATCH (RFC 7644, 3.5.2). */
export const ScimPatch = v.object({
  /** Some clients leave it out. */
  schemas: v.nullish(
    v.pipe(
      v.array(v.string(), "must be a list"),
      v.check((schemas) => schemas.includes(scimUrn.patch), "must name the schema PatchOp"),
    ),
  ),
  operations: v.pipe(
    v.array(Operation, "must be a list of operations"),
    v.minLength(1, "must not be empty"),
    v.maxLength(1000, "must be at most 1000 operations"),
  ),
});

/** One operation of a PATCH. */
export type ScimOperation = v.InferOutput<typeof Operation>;
