/**
 * A PKI for labs and demos: `bun run lab-ca -- --out DIR [--name HOST]… [--issue-client URI] [--days N]`. Creates the lab unless it
 * exists, then the client certificate if one is requested. Prints one JSON object with the paths; exit code 0, 1 failed, 2 usage.
 */
import { resolve } from "node:path";
import { rfc3339 } from "#kit/clock.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { issueClient } from "./issue-client.ts";
import { createLabPki, labServerNames } from "./pki.ts";

const {
  out,
  name: names,
  "issue-client": identity,
  days,
} = readCommandOptions({ out: null, name: [], "issue-client": null, days: 30 });

const run = async (dir: string): Promise<object> => {
  const lab = await createLabPki({
    dir,
    serverNames: [...labServerNames, ...names],
  });
  const report = {
    created: lab.created,
    server_ca_file: lab.serverCaFile,
    edge: { cert_file: lab.edge.certFile, key_file: lab.edge.keyFile },
    ingest: { cert_file: lab.ingest.certFile, key_file: lab.ingest.keyFile },
    enrollment_ca: { cert_file: lab.enrollmentCa.certFile, key_file: lab.enrollmentCa.keyFile },
  };
  if (identity === undefined) return report;
  const client = await issueClient({ dir, identity, lifetimeSeconds: days * 86_400 });
  return {
    ...report,
    client: {
      identity: client.identity,
      cert_file: client.certFile,
      key_file: client.keyFile,
      serial_number: client.serialNumber,
      fingerprint_sha256: client.fingerprintSha256,
      not_after: rfc3339(client.notAfter),
    },
  };
};

if (!out || !Number.isInteger(days) || days < 1 || days > 825) {
  console.error(
    "usage: bun run lab-ca -- --out DIR [--name HOST_OR_ADDRESS]... [--issue-client URI] [--days 1..825]",
  );
  process.exitCode = 2;
} else {
  try {
    console.log(JSON.stringify(await run(resolve(out)), null, 2));
  } catch (error) {
    console.error(`lab-ca: ${error instanceof Error ? error.message : "failed"}`);
    process.exitCode = 1;
  }
}
