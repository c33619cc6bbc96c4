import { readFile } from "node:fs/promises";
import { CommandFailure, exitCode } from "#collector/commands/command.ts";
import { readToken } from "#collector/commands/enroll-options.ts";
import { systemClock } from "#kit/clock.ts";
import { type DrivenFleet, driveFleet } from "./drive/drive-fleet.ts";
import { createNodeWire } from "./drive/node-wire.ts";
import { explained } from "./drive/refusals.ts";
import { WireError } from "./drive/wire.ts";
import { withModelDatabase } from "./model/predict-health.ts";
import type { SimOptions } from "./options.ts";
import { scenarios } from "./scenario/scenarios.ts";

/** Drives a fleet against a live core by the machine's clock. Rejects with a `CommandFailure`. */
export const runDrive = async (
  options: SimOptions & { drive: string },
  context: { signal: AbortSignal; progress(line: string): void },
): Promise<DrivenFleet> => {
  const { scenario, seed, bootstrap, duration, rate, concurrency } = options;
  const { "operator-token-file": operatorTokenFile } = options;
  const wire = await openWire(options);
  try {
    const token = bootstrap && (await readToken({ "token-file": bootstrap.tokenFile }, process));
    return await driveFleet({
      scenario,
      seed,
      wire,
      clock: systemClock,
      concurrency,
      ...context,
      hosts: options.hosts ?? scenarios[scenario].hosts,
      run: options.run ?? systemClock.now().toString(36),
      operatorToken:
        operatorTokenFile === undefined ? null : () => readBridgeToken(operatorTokenFile),
      bootstrap: bootstrap && token ? { token, identityPrefix: bootstrap.identityPrefix } : null,
      ...(duration === undefined ? {} : { durationSeconds: duration }),
      ...(rate === undefined ? {} : { ratePerSecond: rate }),
      withDatabase: withModelDatabase,
    });
  } catch (cause) {
    throw cause instanceof CommandFailure ? cause : driveFailure(cause);
  }
};

const driveFailure = (cause: unknown): CommandFailure => {
  const known = cause instanceof Error ? cause.message : "unknown failure";
  const message = cause instanceof WireError ? explained(cause.code) : known;
  const text = `the fleet cannot be driven: ${message}`;
  return new CommandFailure(exitCode.failed, "drive_failed", text, { cause });
};

const openWire = async (options: SimOptions & { drive: string }) => {
  const { drive, ingest, showsCertificate, concurrency, "ca-bundle": bundle } = options;
  const caPem = await readBundle("ca-bundle", bundle);
  const ingestCaPem = await readBundle("ingest-ca-bundle", options["ingest-ca-bundle"] ?? bundle);
  const ingestServer =
    ingest === undefined ? undefined : { url: `https://${ingest}`, caPem: ingestCaPem };
  const isAtIngest = "url" in showsCertificate && ingestServer?.url === showsCertificate.url;
  return createNodeWire({
    api: { url: drive, caPem },
    management: isAtIngest ? ingestServer : { caPem, ...showsCertificate },
    ingest: ingestServer,
    connectionsMax: concurrency,
  });
};

const readText = (flag: string, path: string): Promise<string> =>
  readFile(path, "utf8").catch((cause: unknown) => {
    throw new CommandFailure(
      exitCode.failed,
      "file_unreadable",
      `the file of --${flag} cannot be read`,
      { cause },
    );
  });

const readBundle = async (flag: string, path: string | undefined): Promise<string | undefined> =>
  path === undefined ? undefined : readText(flag, path);

/** Returns the token that the file has now. */
const readBridgeToken = async (path: string): Promise<string> => {
  const token = (await readText("operator-token-file", path)).trim();
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token))
    throw new CommandFailure(
      exitCode.failed,
      "token_malformed",
      "this is not a bridge token; nothing was sent",
    );
  return token;
};
