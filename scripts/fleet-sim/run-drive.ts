import { readFile } from "node:fs/promises";
import { CommandFailure, exitCode } from "../../collector/commands/command-failure.ts";
import { readToken } from "../../collector/commands/enroll-options.ts";
import { systemClock } from "../../kit/clock.ts";
import { type DrivenFleet, driveFleet } from "./drive/drive-fleet.ts";
import { createNodeWire } from "./drive/node-wire.ts";
import { explained } from "./drive/refusals.ts";
import { WireError } from "./drive/wire.ts";
import { withModelDatabase } from "./model/predict-health.ts";
import type { DriveRequest, Options } from "./options.ts";

/** Drives the fleet that was asked for against a live core by the machine's clock. Rejects with a `CommandFailure`. */
export const runDrive = async (
  { scenario, seed }: Pick<Options, "scenario" | "seed">,
  request: DriveRequest,
  { signal, progress }: { signal: AbortSignal; progress(line: string): void },
): Promise<DrivenFleet> => {
  const { url, ingest, management, bootstrap, operatorTokenFile, durationSeconds, ratePerSecond } = request;
  const caPem = await readBundle("ca-bundle", request.caBundle);
  const ingestCaPem = await readBundle("ingest-ca-bundle", request.ingestCaBundle);
  const serverName = undefined;
  const atIngest = ingest !== undefined && "url" in management && management.url === `https://${ingest}`;
  const wire = createNodeWire({
    api: { url, caPem },
    management:
      "header" in management ? management : { ...management, caPem: atIngest ? ingestCaPem : caPem, serverName },
    ingest: ingest === undefined ? undefined : { url: `https://${ingest}`, caPem: ingestCaPem, serverName },
    connectionsMax: request.concurrency,
  });
  try {
    return await driveFleet({
      scenario,
      seed,
      hosts: request.hosts,
      run: request.run ?? systemClock.now().toString(36),
      wire,
      operatorToken: operatorTokenFile === undefined ? null : () => readBridgeToken(operatorTokenFile),
      bootstrap:
        bootstrap === undefined
          ? null
          : { token: await readToken({ "token-file": bootstrap.tokenFile }, process), ...bootstrap },
      clock: systemClock,
      concurrency: request.concurrency,
      ...(durationSeconds === undefined ? {} : { durationSeconds }),
      ...(ratePerSecond === undefined ? {} : { ratePerSecond }),
      withDatabase: withModelDatabase,
      signal,
      progress,
    });
  } catch (cause) {
    if (cause instanceof CommandFailure) throw cause;
    const message =
      cause instanceof WireError ? explained(cause.code) : cause instanceof Error ? cause.message : "unknown failure";
    throw new CommandFailure(exitCode.failed, "drive_failed", `the fleet cannot be driven: ${message}`, { cause });
  }
};

/** The token in the file as it is now. */
const readBridgeToken = async (path: string): Promise<string> => {
  const token = (await readFile(path, "utf8").catch(() => undefined))?.trim();
  if (token === undefined)
    throw new CommandFailure(exitCode.failed, "file_unreadable", "the file of --operator-token-file cannot be read");
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token))
    throw new CommandFailure(exitCode.failed, "token_malformed", "this is not a bridge token; nothing was sent");
  return token;
};

const readBundle = async (name: string, path: string | undefined): Promise<string | undefined> => {
  if (path === undefined) return undefined;
  return readFile(path, "utf8").catch(() => {
    throw new CommandFailure(exitCode.failed, "file_unreadable", `the file of --${name} cannot be read`);
  });
};
