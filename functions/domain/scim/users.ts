import { uuidv7 } from "../../../kit/entropy.ts";
import { lowerAscii } from "../../../kit/lower-ascii.ts";
import { type ScimOperation, ScimUserInput } from "../../../proto/scim/resources.ts";
import { Problem } from "../../problems.ts";
import type { Executor } from "../../store/database/database.ts";
import {
  deleteScimUser,
  findScimUser,
  findTakenAttribute,
  insertScimUser,
  type ScimUserRow,
  updateScimUser,
} from "../../store/scim/users.ts";
import type { Origin } from "../audit/audit-log.ts";
import { subjectOf } from "./directory-user.ts";
import { parseScim } from "./parse-scim.ts";
import { patchUser } from "./patch-user.ts";
import { push, type ScimCore } from "./push.ts";

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text is the id of a resource of core. */
export const isResourceId = (text: string): boolean => uuid.test(text);

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
    await check(tx, core, row);
    await insertScimUser(tx, row);
    return { result: row, userIds: [row.id] };
  });
};

/** Replaces a user. An absent `active` stays as it is, and what a restore holds stays held. Throws as `createUser`, and 404 `not_found`. */
export const replaceUser = (
  core: ScimCore,
  id: string,
  body: unknown,
  origin: Origin,
): Promise<ScimUserRow> => {
  const input = parseScim(ScimUserInput, body);
  return change(core, id, origin, () => input);
};

/** Applies the operations of a PATCH to a user. Throws as `replaceUser` and `patchUser`. */
export const updateUser = (
  core: ScimCore,
  id: string,
  operations: readonly ScimOperation[],
  origin: Origin,
): Promise<ScimUserRow> =>
  change(core, id, origin, ({ userName, externalId, displayName, name, emails }) =>
    // Without `active`: what no operation states is no statement of the provider.
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
export const findUser = async (db: Executor, id: string): Promise<ScimUserRow> => {
  const row = isResourceId(id) ? await findScimUser(db, id) : undefined;
  if (row === undefined) throw new Problem("not_found", { detail: "No such user" });
  return row;
};

const change = (
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
    await check(tx, core, row);
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
  // A statement of `active`, either way, ends what a restore holds.
  held: active == null && kept.held,
  displayName,
  name,
  emails,
});

const check = async (tx: Executor, { scim }: ScimCore, row: ScimUserRow): Promise<void> => {
  if (subjectOf(row, scim.subject) === null)
    throw new Problem("scim_value_invalid", {
      detail: `${scim.subject} is required: it is the person's sub at the identity provider`,
    });
  const taken = await findTakenAttribute(tx, row);
  if (taken) throw new Problem("scim_value_taken", { detail: `Another user has this ${taken}` });
};
