import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "#kit/clock.ts";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { clientCertificateHeader, startLabEdge } from "#scripts/lab/core-process.ts";
import {
  createOperatorApi,
  createPolicyWithToken,
  type OperatorApi,
} from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { createHostProgram } from "#tests/collector/support/host-program.ts";
import { identityPrefix } from "../collector.ts";
import { type TestDatabase, useTestDatabase } from "../database.ts";
import { newFolder, whenDone } from "../new-folder.ts";
import { startCore } from "../program.ts";

/** The secret of the lab's cores. */
export const labSecret = "a-test-secret-of-more-than-32-bytes";

/**
 * Creates certificates and a database with people for cores and collectors that run as processes. All of it ends with the tests of the file,
 * in reverse order.
 */
export const createTestLab = async ({
  clock = systemClock,
}: {
  clock?: Pick<Clock, "now">;
} = {}) => {
  const dir = newFolder();
  const pki = await createLabPki({ dir: join(dir, "pki"), clock });
  const database = await useTestDatabase();
  const { db, sql, close } = database.connect();
  await seedPeople(db, Date.now());
  const tokenFile = join(dir, "token");
  const envOf = (
    env: Readonly<Record<string, string>> = {},
    { url }: Pick<TestDatabase, "url"> = database,
  ) => ({
    ...labCoreEnvironment({ databaseUrl: url, pki, authTokenSecret: labSecret }),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
    ...env,
  });
  return {
    dir,
    pki,
    database,
    sql,
    /** Ends the lab's own connection: nobody may be connected to a database that is copied. */
    disconnect: close,
    tokenFile,
    envOf,
    /** Starts a core, on the lab's database unless told otherwise. */
    startCore: async (env?: Readonly<Record<string, string>>, on?: Pick<TestDatabase, "url">) => {
      const core = await startCore(envOf(env, on));
      return { ...core, api: createOperatorApi(core.url, labSecret) };
    },
    /** Starts an edge in front of a core. */
    startEdge: async ({ url }: { url: string }) => {
      const edge = await startLabEdge(pki, { coreUrl: url });
      whenDone(() => edge.close());
      return edge;
    },
    /** Writes a token of a new policy to the file from which the lab's hosts enroll. */
    writeToken: async ({ api }: { api: OperatorApi }, policy: object = {}) => {
      const named = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
      const { token } = await createPolicyWithToken(api, { ...named, ...policy }, { max_uses: 0 });
      await writeFile(tokenFile, token, { mode: 0o600 });
    },
    /** Creates a host that enrolls and sends heartbeats through `url`, and forwards to a core. */
    createHost: (deviceId: string, { url }: { url: string }, core: { ingestPort: number }) =>
      createHostProgram(deviceId, { dir, identityPrefix }, () => ({
        coreUrl: url,
        ingestPort: core.ingestPort,
        caBundle: pki.serverCaFile,
      })),
  };
};
