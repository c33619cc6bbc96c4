import { and, eq } from "drizzle-orm";
import { authenticationIdentity, person } from "#drizzle/schema/operator.ts";
import { createApp } from "#functions/app.ts";
import type { Environment } from "#kit/env.ts";
import { mintBridgeToken, testTenantId } from "#scripts/lab/people.ts";
import { type TestCoreOptions, useTestCore } from "./core.ts";

/** The bearer token of the identity provider in tests. */
export const scimToken = "a-scim-token-of-the-tests-0123456789";

/** The variables of a core whose directory an identity provider pushes. */
export const scimEnvironment: Environment = {
  SVC_DIRECTORY_DELEGATE_EMAIL: undefined,
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: undefined,
  SVC_DIRECTORY_PROVIDER: "scim",
  SVC_DIRECTORY_SCIM_TOKEN: scimToken,
};

/** A response of SCIM. */
export interface ScimAnswer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: SCIM messages are checked by the tests
  body: any;
}

/** Calls SCIM as the identity provider. */
export type CallScim = (
  method: string,
  path: string,
  body?: unknown,
  options?: { token?: string; from?: string },
) => Promise<ScimAnswer>;

/** A core of a file of tests whose directory an identity provider pushes, and calls as that provider and as the people. */
export const createScimCore = async (options: TestCoreOptions = {}) => {
  const test = await useTestCore({
    ...options,
    env: { ...scimEnvironment, ...options.env },
  });
  const { db, clock } = test;

  /** Calls `/scim/v2` with the token; the body is sent as `application/scim+json`. */
  const scim: CallScim = async (method, path, body, { token = scimToken, from } = {}) => {
    clock.advance(1);
    const {
      status,
      headers,
      body: received,
    } = await test.api<unknown>(method, `/scim/v2${path}`, {
      as: { bearer: token },
      ...(body === undefined
        ? {}
        : { raw: { type: "application/scim+json", content: JSON.stringify(body) } }),
      ...(from === undefined ? {} : { from }),
    });
    return { status, headers, body: received };
  };

  /** Changes a resource by operations of a PATCH. */
  const patch = (path: string, ...Operations: object[]) =>
    scim("PATCH", path, {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
      Operations,
    });

  /** Creates the user `<name>@example.test`, whose subject is `name`. */
  const createPerson = async (name: string, attributes: object = {}): Promise<{ id: string }> => {
    const { status, body } = await scim("POST", "/Users", {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
      userName: `${name}@example.test`,
      externalId: name,
      ...attributes,
    });
    if (status !== 201) throw new Error(`creating ${name}: ${status} ${JSON.stringify(body)}`);
    return body as { id: string };
  };

  /** Finds the person of a subject. */
  const personOf = async (subject: string) => {
    const [row] = await db
      .select({ person })
      .from(person)
      .innerJoin(authenticationIdentity, eq(authenticationIdentity.userId, person.userId))
      .where(
        and(
          eq(authenticationIdentity.tenantId, testTenantId),
          eq(authenticationIdentity.subject, subject),
        ),
      );
    return row?.person;
  };

  /** Calls core as the person of a subject. */
  const whoami = async (subject: string): Promise<{ status: number; scopes: string[] }> => {
    const found = await personOf(subject);
    const bearer = await mintBridgeToken(test.config.authTokenSecret.reveal(), {
      sub: found?.userId ?? "",
      now: clock.now(),
    });
    const { status, body } = await test.api<{ scopes?: string[] }>("GET", "/v1/whoami", {
      as: { bearer },
    });
    return { status, scopes: body.scopes ?? [] };
  };

  /** Starts a second core on the database, and returns what calls it. */
  const onSameDatabase = (): CallScim => {
    const peer = { remoteAddress: "127.0.0.1", certificate: null, listener: "http" as const };
    const app = createApp({ ...test.core, db: test.database.connect().db }, { peerOf: () => peer });
    return async (method, path, body) => {
      const response = await app.request(`/scim/v2${path}`, {
        method,
        headers: { Authorization: `Bearer ${scimToken}`, "Content-Type": "application/scim+json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: text === "" ? undefined : JSON.parse(text),
      };
    };
  };

  return { ...test, onSameDatabase, scim, patch, createPerson, personOf, whoami };
};
