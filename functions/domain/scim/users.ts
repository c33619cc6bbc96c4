import { Problem, requireFound } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { ScimList, ScimPage } from "#functions/store/scim/filter.ts";
import {
  deleteScimUser,
  findScimUser,
  findTakenAttribute,
  insertScimUser,
  listScimUsers,
  type ScimUserRow,
  updateScimUser,
} from "#functions/store/scim/users.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { lowerAscii } from "#kit/lower-ascii.ts";
import {
  matchesScimFilter,
  type ScimFilter,
  type ScimPath,
  ScimSyntaxError,
} from "#proto/scim/filter.ts";
import { emailsMax, type ScimOperation, ScimUserInput } from "#proto/scim/resources.ts";
import { isUuid } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import {
  canonicalName,
  parseScim,
  refuseReadOnly,
  targetsOf,
  unknownPath,
  withFilterProblem,
} from "./parse-scim.ts";
import { push, type ScimCore, subjectOf } from "./push.ts";

/** Creates a user. Throws 400 `scim_value_invalid`, 409 `scim_value_taken`. */
export const createUser = (core: ScimCore, body: unknown, origin: Origin): Promise<ScimUserRow> => {
  const input = parseScim(ScimUserInput, body);
  return push(core, origin, async (tx) => {
    const now = new Date(core.clock.now());
    const row = rowOf(input, {
      id: uuidv7(core),
      active: true,
      held: false,
      createdAt: now,
      updatedAt: now,
    });
    await requireValid(tx, core, row);
    await insertScimUser(tx, row);
    return { result: row, userIds: [row.id] };
  });
};

/**
 * Replaces a user. An absent `active` stays as it is, and access held since a restore stays held. Throws as `createUser`, and 404
 * `not_found`.
 */
export const replaceUser = (
  core: ScimCore,
  id: string,
  body: unknown,
  origin: Origin,
): Promise<ScimUserRow> => {
  const input = parseScim(ScimUserInput, body);
  return changeUser(core, id, origin, () => input);
};

/** Applies the operations of a PATCH to a user. Throws as `replaceUser` and `patchUser`. */
export const updateUser = (
  core: ScimCore,
  id: string,
  operations: readonly ScimOperation[],
  origin: Origin,
): Promise<ScimUserRow> =>
  changeUser(core, id, origin, ({ userName, externalId, displayName, name, emails }) =>
    // Without `active`: the provider states only what an operation sets.
    parseScim(
      ScimUserInput,
      patchUser({ userName, externalId, displayName, name, emails }, operations),
    ),
  );

/** Deletes a user: its person becomes `absent`. Throws 404 `not_found`. */
export const deleteUser = (core: ScimCore, id: string, origin: Origin): Promise<void> =>
  push(core, origin, async (tx) => {
    const before = await findUser(tx, id);
    await deleteScimUser(tx, id);
    return { result: undefined, userIds: [], before: [before] };
  });

/** Finds a user. Throws 404 `not_found`. */
export const findUser = async (db: Executor, id: string): Promise<ScimUserRow> =>
  requireFound(isUuid(id) ? await findScimUser(db, id) : undefined, "user");

/** Returns one page of the users. Throws `scim_filter_invalid` for a filter that core does not support. */
export const listUsers = ({ db }: ScimCore, page: ScimPage): Promise<ScimList<ScimUserRow>> =>
  withFilterProblem(() => listScimUsers(db, page));

const changeUser = (
  core: ScimCore,
  id: string,
  origin: Origin,
  inputOf: (before: ScimUserRow) => ScimUserInput,
): Promise<ScimUserRow> =>
  push(core, origin, async (tx) => {
    const before = await findUser(tx, id);
    const { active, held, createdAt } = before;
    const row = rowOf(inputOf(before), {
      id,
      active,
      held,
      createdAt,
      updatedAt: new Date(core.clock.now()),
    });
    await requireValid(tx, core, row);
    await updateScimUser(tx, row);
    return { result: row, userIds: [id], before: [before] };
  });

const rowOf = (
  { userName, externalId, active, displayName, name, emails }: ScimUserInput,
  kept: Pick<ScimUserRow, "id" | "active" | "held" | "createdAt" | "updatedAt">,
): ScimUserRow => ({
  ...kept,
  userName,
  userNameKey: lowerAscii(userName),
  externalId,
  active: active ?? kept.active,
  // A stated `active`, true or false, ends the hold since a restore.
  held: active == null && kept.held,
  displayName,
  name,
  emails,
});

const requireValid = async (tx: Executor, { scim }: ScimCore, row: ScimUserRow) => {
  if (subjectOf(row, scim.subject) === null)
    throw new Problem("scim_value_invalid", {
      detail: `${scim.subject} is required: it is the person's sub at the identity provider`,
    });
  const taken = await findTakenAttribute(tx, row);
  if (taken) throw new Problem("scim_value_taken", { detail: `Another user has this ${taken}` });
};

/** A user as JSON, before it is validated. */
type UserDocument = Record<string, unknown>;

type Element = Record<string, unknown>;

/** Attributes of RFC 7643 that core does not store. Writing them has no effect, because clients send them by default. */
const ignored = new Set(
  [
    "nickName",
    "profileUrl",
    "title",
    "userType",
    "preferredLanguage",
    "locale",
    "timezone",
    "password",
    "phoneNumbers",
    "ims",
    "photos",
    "addresses",
    "groups",
    "entitlements",
    "roles",
    "x509Certificates",
  ].map((name) => name.toLowerCase()),
);

/**
 * Applies operations to a user in their order and returns the result, which core validates as a new user. Throws `scim_path_invalid` for an
 * unknown attribute, `scim_target_missing`, `scim_value_invalid`, `scim_read_only`.
 */
export const patchUser = (
  user: UserDocument,
  operations: readonly ScimOperation[],
): UserDocument => {
  let patched = user;
  for (const operation of operations)
    for (const { path, value } of targetsOf(operation))
      patched = applyOperation(patched, operation.op, path, value);
  return patched;
};

const applyOperation = (
  user: UserDocument,
  op: ScimOperation["op"],
  path: ScimPath,
  value: unknown,
): UserDocument => {
  const name = canonicalName(path.name);
  if (name.startsWith("urn:") || ignored.has(name)) return user;
  refuseReadOnly(name);
  switch (name) {
    case "userName":
    case "externalId":
    case "active":
    case "displayName":
      if (path.filter || path.sub) throw unknownPath("user");
      // Without a value the user becomes inactive: a removal never grants access.
      return {
        ...user,
        [name]: (op === "remove" ? null : value) ?? (name === "active" ? false : null),
      };
    case "name":
      if (path.filter) throw unknownPath("user");
      return { ...user, name: patchName(elementOf(user.name), op, path.sub, value) };
    case "emails":
      return {
        ...user,
        emails: withinLimit(patchEmails(user.emails as Element[], op, path, value)),
      };
    default:
      throw unknownPath("user");
  }
};

const patchName = (
  name: Element,
  op: ScimOperation["op"],
  sub: string | null,
  value: unknown,
): Element => {
  if (sub !== null) return { ...name, [canonicalName(sub)]: op === "remove" ? null : value };
  if (op === "remove" || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw new Problem("scim_value_invalid", { detail: "name must be an object" });
  return { ...name, ...value };
};

const patchEmails = (
  emails: readonly Element[],
  op: ScimOperation["op"],
  { filter, sub }: ScimPath,
  value: unknown,
): Element[] => {
  if (filter === null) {
    if (sub !== null) throw unknownPath("user");
    if (op === "remove") return [];
    const added = listOf(value);
    if (op === "replace") return added;
    const kept = emails.filter((email) => !added.some((other) => isSameEmail(other, email)));
    return [...withoutPrimary(kept, added), ...added];
  }
  const isTarget = (email: Element) => matches(filter, email);
  if (op === "remove") {
    // An address without a value is none.
    if (sub === null || sub === "value") return emails.filter((email) => !isTarget(email));
    return emails.map((email) => (isTarget(email) ? { ...email, [sub]: null } : email));
  }
  const change: Element = sub === null ? elementOf(value) : { [canonicalName(sub)]: value };
  if (emails.some(isTarget)) {
    const others = withoutPrimary(
      emails.filter((email) => !isTarget(email)),
      [change],
    );
    return [...others, ...emails.filter(isTarget).map((email) => ({ ...email, ...change }))];
  }
  if (op === "replace")
    throw new Problem("scim_target_missing", { detail: "No element matches the path's filter" });
  return [...withoutPrimary(emails, [change]), { ...elementFrom(filter), ...change }];
};

/** Returns the element that a filter such as `type eq "work"` describes; Entra ID adds an address by such a path. */
const elementFrom = (filter: ScimFilter): Element => {
  if (filter.kind === "and") return { ...elementFrom(filter.left), ...elementFrom(filter.right) };
  if (filter.kind !== "compare" || filter.operator !== "eq" || filter.attribute.sub !== null)
    throw new Problem("scim_target_missing", { detail: "No element matches the path's filter" });
  return { [canonicalName(filter.attribute.name)]: filter.value };
};

/** A new primary element replaces the former one (RFC 7644, 3.5.2). */
const withoutPrimary = (elements: readonly Element[], added: readonly Element[]): Element[] =>
  added.some(({ primary }) => primary === true || String(primary).toLowerCase() === "true")
    ? elements.map((element) => ({ ...element, primary: false }))
    : [...elements];

const isSameEmail = (a: Element, b: Element) =>
  String(a.value).toLowerCase() === String(b.value).toLowerCase() &&
  (a.type ?? null) === (b.type ?? null);

const listOf = (value: unknown): Element[] => {
  if (value === null) return [];
  return Array.isArray(value) ? withinLimit(value).map(elementOf) : [elementOf(value)];
};

/** Limits the comparisons of a request with many operations. */
const withinLimit = <Item>(emails: Item[]): Item[] => {
  if (emails.length <= emailsMax) return emails;
  throw new Problem("scim_value_invalid", {
    detail: `emails must be at most ${emailsMax} addresses`,
  });
};

const elementOf = (value: unknown): Element => {
  if (typeof value === "string") return { value };
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Problem("scim_value_invalid", { detail: "A value has a wrong type" });
  return value as Element;
};

const matches = (filter: ScimFilter, element: Element) => {
  try {
    return matchesScimFilter(filter, element);
  } catch (error) {
    if (!(error instanceof ScimSyntaxError)) throw error;
    throw new Problem("scim_path_invalid", {
      detail: `The path's filter is malformed: ${error.message}`,
      cause: error,
    });
  }
};
