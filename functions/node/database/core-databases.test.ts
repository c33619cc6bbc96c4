import { expect, it } from "vitest";
import { findEndedCertificates } from "#functions/store/certificate/certificates.ts";
import { connectionsMaxDefault } from "#functions/store/database/call-limits.ts";
import { Secret } from "#kit/secret.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { openCoreDatabases } from "./core-databases.ts";
import { createCoreServers } from "./database-servers.ts";

it("D8: looks up certificates while requests have all of their connections, so that no stream ends for want of one", async () => {
  const database = await useTestDatabase();
  const config = {
    databaseUrl: new Secret(database.url),
    databaseSessionUrl: null,
    databasePasswordCommand: null,
  };
  const servers = createCoreServers(config, console);
  const { requests, certificates, close } = openCoreDatabases(servers, untraced);
  const end = Promise.withResolvers<void>();
  const held = Array.from({ length: connectionsMaxDefault }, () =>
    requests.db.transaction(() => end.promise),
  );
  expect(await findEndedCertificates(certificates.db, undefined)).toMatchObject({
    ended: undefined,
  });
  end.resolve();
  await Promise.all(held);
  await close(0);
});
