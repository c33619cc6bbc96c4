import { scimBasePath } from "#proto/scim/resources.ts";
import { parseOperations } from "../domain/scim/parse-scim.ts";
import type { ScimCore } from "../domain/scim/push.ts";
import {
  createUser,
  deleteUser,
  findUser,
  listUsers,
  replaceUser,
  updateUser,
} from "../domain/scim/users.ts";
import { listMessage, listQueryOf, type ScimRouteDefinition } from "./scim-route.ts";
import { locationOf, project, userView } from "./views.ts";

const collection = `${scimBasePath}/Users`;
const resource = `${collection}/:id`;

/** `/scim/v2/Users` (RFC 7644, 3). */
export const userRoutesOf = (core: ScimCore): readonly ScimRouteDefinition[] => [
  {
    method: "GET",
    path: collection,
    operationId: "scimListUsers",
    summary: "Users that match a filter, by page",
    handle: async ({ query, projection }) => {
      const page = listQueryOf(query);
      const { rows, total } = await listUsers(core, page);
      const resources = rows.map((row) => project(userView(row), projection));
      return { status: 200, body: listMessage(total, page, resources) };
    },
  },
  {
    method: "POST",
    path: collection,
    operationId: "scimCreateUser",
    summary: "Create a user",
    handle: async ({ json, origin, projection }) => {
      const row = await createUser(core, await json(), origin);
      return {
        status: 201,
        body: project(userView(row), projection),
        location: locationOf("Users", row.id),
      };
    },
  },
  {
    method: "GET",
    path: resource,
    operationId: "scimGetUser",
    summary: "A user",
    handle: async ({ id, projection }) => ({
      status: 200,
      body: project(userView(await findUser(core.db, id)), projection),
    }),
  },
  {
    method: "PUT",
    path: resource,
    operationId: "scimReplaceUser",
    summary: "Replace a user",
    handle: async ({ id, json, origin, projection }) => ({
      status: 200,
      body: project(userView(await replaceUser(core, id, await json(), origin)), projection),
    }),
  },
  {
    method: "PATCH",
    path: resource,
    operationId: "scimUpdateUser",
    summary: "Change attributes of a user",
    handle: async ({ id, json, origin, projection }) => ({
      status: 200,
      body: project(
        userView(await updateUser(core, id, parseOperations(await json()), origin)),
        projection,
      ),
    }),
  },
  {
    method: "DELETE",
    path: resource,
    operationId: "scimDeleteUser",
    summary: "Delete a user",
    handle: async ({ id, origin }) => {
      await deleteUser(core, id, origin);
      return { status: 204 };
    },
  },
];
