import { rfc3339 } from "#kit/clock.ts";
import { scimBasePath, scimUrn } from "#proto/scim/resources.ts";
import type { ScimGroupRow, ScimMemberRow } from "../store/scim/groups.ts";
import type { ScimUserRow } from "../store/scim/users.ts";

/** A resource as JSON. */
export type ResourceView = Readonly<Record<string, unknown>>;

/** The attributes of a response (RFC 7644, 3.9), in lower case; null: all of them. */
export interface Projection {
  attributes: readonly string[] | null;
  excluded: readonly string[];
}

/** Returns the address of a resource: a relative reference, because core does not know its public address. */
export const locationOf = (type: "Users" | "Groups", id: string): string =>
  `${scimBasePath}/${type}/${id}`;

const metaOf = (
  type: "User" | "Group",
  { id, createdAt, updatedAt }: ScimUserRow | ScimGroupRow,
) => ({
  resourceType: type,
  created: rfc3339(createdAt.getTime()),
  lastModified: rfc3339(updatedAt.getTime()),
  location: locationOf(`${type}s`, id),
});

/** Returns a user as clients read it. Unassigned attributes are absent. */
export const userView = (row: ScimUserRow): ResourceView => {
  const { id, userName, externalId, active, displayName, name, emails } = row;
  const assigned = Object.fromEntries(Object.entries(name).filter(([, value]) => value !== null));
  return {
    schemas: [scimUrn.user],
    id,
    ...(externalId === null ? {} : { externalId }),
    userName,
    ...(displayName === null ? {} : { displayName }),
    ...(Object.keys(assigned).length === 0 ? {} : { name: assigned }),
    active,
    ...(emails.length === 0
      ? {}
      : {
          emails: emails.map(({ value, type, primary }) => ({
            value,
            ...(type === null ? {} : { type }),
            primary,
          })),
        }),
    meta: metaOf("User", row),
  };
};

/** Returns a group as clients read it. */
export const groupView = (row: ScimGroupRow, members: readonly ScimMemberRow[]): ResourceView => ({
  schemas: [scimUrn.group],
  id: row.id,
  ...(row.externalId === null ? {} : { externalId: row.externalId }),
  displayName: row.displayName,
  ...(members.length === 0
    ? {}
    : {
        members: members.map(({ userId, userName }) => ({
          value: userId,
          display: userName,
          type: "User",
          $ref: locationOf("Users", userId),
        })),
      }),
  meta: metaOf("Group", row),
});

/** Attributes that each response has. */
const always = ["schemas", "id"];

/** Returns the requested attributes of a resource, and sub-attributes such as `name.givenName`. */
export const project = (view: ResourceView, { attributes, excluded }: Projection): ResourceView =>
  Object.fromEntries(
    Object.entries(view).flatMap(([name, value]) => {
      const key = name.toLowerCase();
      if (always.includes(key)) return [[name, value]];
      if (excluded.includes(key)) return [];
      const isWhole = attributes === null || attributes.includes(key);
      const wanted = subAttributes(attributes ?? [], key);
      const hidden = subAttributes(excluded, key);
      if (!isWhole && wanted.length === 0) return [];
      if (isWhole && hidden.length === 0) return [[name, value]];
      const keeps = (sub: string) => !hidden.includes(sub) && (isWhole || wanted.includes(sub));
      return [[name, withSubs(value, keeps)]];
    }),
  );

const subAttributes = (paths: readonly string[], attribute: string): string[] =>
  paths
    .filter((path) => path.startsWith(`${attribute}.`))
    .map((path) => path.slice(attribute.length + 1));

const withSubs = (value: unknown, keeps: (name: string) => boolean): unknown => {
  if (Array.isArray(value)) return value.map((element) => withSubs(element, keeps));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => keeps(name.toLowerCase())));
};
