import { scimBasePath } from "#proto/scim/resources.ts";
import {
  createGroup,
  deleteGroup,
  findGroup,
  listGroups,
  readMembers,
  replaceGroup,
  updateGroup,
} from "../domain/scim/groups.ts";
import { parseOperations } from "../domain/scim/parse-scim.ts";
import type { ScimCore } from "../domain/scim/push.ts";
import {
  listMessage,
  listQueryOf,
  type ScimReply,
  type ScimRouteDefinition,
} from "./scim-route.ts";
import { groupView, locationOf, type Projection, project } from "./views.ts";

const collection = `${scimBasePath}/Groups`;
const resource = `${collection}/:id`;

/** Reports whether a response includes members: core does not read a large group's for a client that excludes them. */
const hasMembers = ({ attributes, excluded }: Projection) =>
  !excluded.includes("members") &&
  (attributes === null || attributes.some((name) => /^members(\.|$)/.test(name)));

/** `/scim/v2/Groups` (RFC 7644, 3). */
export const groupRoutesOf = (core: ScimCore): readonly ScimRouteDefinition[] => {
  const replyWith = async (id: string, projection: Projection): Promise<ScimReply> => {
    const group = await findGroup(core.db, id);
    const members = hasMembers(projection) ? await readMembers(core, id) : [];
    return { status: 200, body: project(groupView(group, members), projection) };
  };
  return [
    {
      method: "GET",
      path: collection,
      operationId: "scimListGroups",
      summary: "Groups that match a filter, by page",
      handle: async ({ query, projection }) => {
        const page = listQueryOf(query);
        const { rows, total } = await listGroups(core, page, hasMembers(projection));
        const resources = rows.map(({ group, members }) =>
          project(groupView(group, members), projection),
        );
        return { status: 200, body: listMessage(total, page, resources) };
      },
    },
    {
      method: "POST",
      path: collection,
      operationId: "scimCreateGroup",
      summary: "Create a group",
      handle: async ({ json, origin, projection }) => {
        const { id } = await createGroup(core, await json(), origin);
        return {
          ...(await replyWith(id, projection)),
          status: 201,
          location: locationOf("Groups", id),
        };
      },
    },
    {
      method: "GET",
      path: resource,
      operationId: "scimGetGroup",
      summary: "A group",
      handle: ({ id, projection }) => replyWith(id, projection),
    },
    {
      method: "PUT",
      path: resource,
      operationId: "scimReplaceGroup",
      summary: "Replace a group with its members",
      handle: async ({ id, json, origin, projection }) => {
        await replaceGroup(core, id, await json(), origin);
        return replyWith(id, projection);
      },
    },
    {
      method: "PATCH",
      path: resource,
      operationId: "scimUpdateGroup",
      summary: "Change attributes or members of a group",
      handle: async ({ id, json, origin, projection }) => {
        await updateGroup(core, id, parseOperations(await json()), origin);
        // Returns a large group's members only to a client that asks for them (RFC 7644, 3.5.2).
        return projection.attributes === null ? { status: 204 } : replyWith(id, projection);
      },
    },
    {
      method: "DELETE",
      path: resource,
      operationId: "scimDeleteGroup",
      summary: "Delete a group",
      handle: async ({ id, origin }) => {
        await deleteGroup(core, id, origin);
        return { status: 204 };
      },
    },
  ];
};
