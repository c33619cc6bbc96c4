import { type FlagKinds, type FlagValues, parseFlags } from "../../collector/commands/command.ts";
import { usageFailure } from "../../collector/commands/command-failure.ts";
import { isConfidentialUrl } from "../../kit/confidential-url.ts";
import { splitHostPort } from "../../proto/collector-config/schema.ts";
import { type ScenarioName, scenarios } from "./scenario/scenarios.ts";

const flags = {
  scenario: "text",
  seed: "text",
  duration: "text",
  out: "text",
  json: "switch",
  drive: "text",
  hosts: "text",
  "operator-token-file": "text",
  "token-file": "text",
  "token-stdin": "switch",
  "identity-prefix": "text",
  management: "text",
  "client-certificate-header": "text",
  ingest: "text",
  "ca-bundle": "text",
  "ingest-ca-bundle": "text",
  run: "text",
  rate: "text",
  concurrency: "text",
  keep: "switch",
} as const satisfies FlagKinds;

type Given = FlagValues<typeof flags>;

/** How to drive a live core. */
export interface DriveRequest {
  /** Base URL of the API without a slash at the end. */
  url: string;
  hosts: number;
  durationSeconds: number | undefined;
  operatorTokenFile: string | undefined;
  /** The file of the bootstrap token, stdin if undefined, and the identity prefix to enroll with. */
  bootstrap: { tokenFile: string | undefined; identityPrefix: string } | undefined;
  /** The URL of a TLS listener, or the header for the API's own. */
  management: { url: string } | { header: string };
  /** `host:port`. */
  ingest: string | undefined;
  caBundle: string | undefined;
  ingestCaBundle: string | undefined;
  run: string | undefined;
  ratePerSecond: number | undefined;
  concurrency: number;
  keep: boolean;
}

/** The validated arguments. */
export interface SimOptions {
  scenario: ScenarioName;
  seed: number;
  durationSeconds: number;
  /** The file of the result; stdout if undefined. */
  out: string | undefined;
  /** Undefined: a simulation, which sends nothing. */
  drive: DriveRequest | undefined;
}

/** The lines of `--help`. */
export const usage = `usage: svc-fleet-sim --scenario NAME [flags]

Plays a fleet on a virtual clock and prints what happened, and the health that core would report, as one JSON value: the same
bytes for the same seed everywhere.

  --scenario NAME     ${Object.keys(scenarios).join(", ")}
  --seed N            chooses the fleet and its history; default 1
  --duration TIME     length of the history: 5m to 12h (s, m, h); default 1h
  --out FILE          writes to FILE, all or nothing, instead of stdout
  --json              prints failures as one JSON object on stdout, and no progress
  --help, --version

With --drive it plays the fleet against a live core, in real time, with real keys, certificates and proofs, and prints a report:
latencies, failures, and how core's health report agrees with the predicted one.

  --drive URL                     base URL of core's API, without /v1; http:// on loopback only
  --operator-token-file FILE      a bridge token of an admin, read anew for each call
  --token-file FILE, --token-stdin, with --identity-prefix URI
                                  enrolls with this bootstrap token instead of one that the admin creates
  --ingest HOST:PORT              the ingest listener, for telemetry and for management requests
  --management URL                a TLS edge for management requests with the client certificate
  --client-certificate-header H   or sends them to the API, with the certificate in this header that core trusts
  --ca-bundle FILE, --ingest-ca-bundle FILE
                                  the only accepted CAs of servers; the second for the ingest listener, if another
  --hosts N                       1 to 100000; default: as many as the scenario has
  --duration TIME                 at least five heartbeat intervals of core; default these or 60s
  --run NAME                      distinguishes this fleet; default: the current time
  --rate N, --concurrency N       limits of steps begun in a second, and at once; default none, and 64
  --keep                          continues to heartbeat after the report, until stopped

Exit codes: 0 done, 1 failed or the reports differ, 2 usage.
`;

const simulatedSeconds = { min: 300, max: 43_200, usual: 3600 };
const drivenSeconds = { min: 5, max: 86_400 };
const hostsMax = 100_000;

/** Parses the arguments. Throws a usage failure that repeats none of them. */
export const readOptions = (args: readonly string[]): SimOptions => {
  const given = parseFlags(flags, args);
  const scenario = readScenario(given);
  const drive = given.drive === undefined ? undefined : readDrive(given, given.drive, scenario);
  const driveFlag = Object.entries(given).find(([name, value]) => Boolean(value) && !simulationFlags.includes(name));
  if (drive === undefined && driveFlag) throw usageFailure(`--${driveFlag[0]} needs --drive`);
  return {
    scenario,
    seed: readNumber("seed", given.seed, 0, Number.MAX_SAFE_INTEGER) ?? 1,
    durationSeconds: (drive ? undefined : readDuration(given.duration, simulatedSeconds)) ?? simulatedSeconds.usual,
    out: given.out,
    drive,
  };
};

const simulationFlags: readonly string[] = ["scenario", "seed", "duration", "out", "json"];

const readScenario = ({ scenario }: Given): ScenarioName => {
  if (scenario === undefined) throw usageFailure("--scenario is required");
  if (!Object.hasOwn(scenarios, scenario))
    throw usageFailure(`--scenario must be one of ${Object.keys(scenarios).join(", ")}`);
  return scenario as ScenarioName;
};

const readDrive = (given: Given, drive: string, scenario: ScenarioName): DriveRequest => {
  const url = readUrl("drive", drive);
  const { ingest, run } = given;
  if (ingest !== undefined && splitHostPort(ingest) === undefined) throw usageFailure("--ingest must be host:port");
  if (run !== undefined && !/^[a-z0-9-]{1,32}$/.test(run))
    throw usageFailure("--run must be 1 to 32 of a-z, 0-9 and -");
  const bootstrap = readBootstrap(given);
  if (bootstrap === undefined && given["operator-token-file"] === undefined)
    throw usageFailure("--operator-token-file, --token-file or --token-stdin is required with --drive");
  return {
    url,
    hosts: readNumber("hosts", given.hosts, 1, hostsMax) ?? scenarios[scenario].hosts,
    durationSeconds: readDuration(given.duration, drivenSeconds),
    operatorTokenFile: given["operator-token-file"],
    bootstrap,
    management: readManagement(given, url),
    ingest,
    caBundle: given["ca-bundle"],
    ingestCaBundle: given["ingest-ca-bundle"] ?? given["ca-bundle"],
    run,
    ratePerSecond: readNumber("rate", given.rate, 1, 100_000),
    concurrency: readNumber("concurrency", given.concurrency, 1, 4096) ?? 64,
    keep: given.keep,
  };
};

const readBootstrap = (given: Given): DriveRequest["bootstrap"] => {
  const { "token-file": tokenFile, "token-stdin": fromStdin, "identity-prefix": identityPrefix } = given;
  if (tokenFile === undefined && !fromStdin) return undefined;
  if (tokenFile !== undefined && fromStdin) throw usageFailure("accepts one of --token-file and --token-stdin");
  if (identityPrefix === undefined || !URL.canParse(identityPrefix) || !identityPrefix.endsWith("/"))
    throw usageFailure("--identity-prefix must be an absolute URI that ends in /");
  return { tokenFile, identityPrefix };
};

const readManagement = (given: Given, url: string): DriveRequest["management"] => {
  const { management, ingest, "client-certificate-header": header } = given;
  if (management !== undefined && header !== undefined)
    throw usageFailure("accepts one of --management and --client-certificate-header");
  if (header !== undefined && !/^[A-Za-z0-9-]{1,64}$/.test(header))
    throw usageFailure("--client-certificate-header must be the name of a header");
  if (header !== undefined) return { header };
  if (management !== undefined) return { url: readUrl("management", management) };
  if (ingest !== undefined) return { url: `https://${ingest}` };
  if (url.startsWith("https:")) return { url };
  throw usageFailure(
    "--ingest, --management or --client-certificate-header is required: how hosts show their certificates",
  );
};

const readUrl = (name: string, text: string): string => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isConfidentialUrl(text) || /[?#]/.test(text))
    throw usageFailure(`--${name} must be https://, or http:// on loopback, without credentials, query or fragment`);
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
};

const readNumber = (name: string, text: string | undefined, min: number, max: number): number | undefined => {
  if (text === undefined) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw usageFailure(`--${name} must be a whole number from ${min} to ${max}`);
  return value;
};

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 };

const readDuration = (text: string | undefined, { min, max }: { min: number; max: number }): number | undefined => {
  if (text === undefined) return undefined;
  const match = /^(\d{1,6})([smh])$/.exec(text);
  const seconds = Number(match?.[1]) * (unitSeconds[match?.[2] ?? ""] ?? 1);
  if (!(seconds >= min && seconds <= max))
    throw usageFailure(`--duration must be a whole number with s, m or h, from ${min}s to ${max / 3600}h`);
  return seconds;
};
