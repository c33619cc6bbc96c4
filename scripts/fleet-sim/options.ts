import { type FlagSpec, type FlagValues, parseFlags } from "../../collector/commands/command.ts";
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
} as const satisfies FlagSpec;

type Given = FlagValues<typeof flags>;

/** How a live core is driven. */
export interface DriveRequest {
  /** Base URL of the API without a slash at the end. */
  url: string;
  hosts: number;
  durationSeconds: number | undefined;
  operatorTokenFile: string | undefined;
  /** Where the bootstrap token comes from, and the prefix that goes with it. */
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

/** What was asked for, checked. */
export interface Options {
  scenario: ScenarioName;
  seed: number;
  durationSeconds: number;
  /** Where the result goes; stdout when undefined. */
  out: string | undefined;
  /** Undefined: nothing is sent anywhere. */
  drive: DriveRequest | undefined;
}

/** The lines of `--help`. */
export const usage = `usage: svc-fleet-sim --scenario NAME [flags]

Plays a fleet by a virtual clock and prints what happened, and the health that core would report, as one JSON value: the same
bytes for the same seed everywhere.

  --scenario NAME     ${Object.keys(scenarios).join(", ")}
  --seed N            which fleet and which history; 1 unless told
  --duration TIME     how long the history is: 5m to 12h (s, m, h); 1h unless told
  --out FILE          writes there, whole or not at all, instead of to stdout
  --json              says failures as one JSON object on stdout, and no progress
  --help, --version

With --drive it plays the fleet against a live core, in real time, with real keys, certificates and proofs, and prints a report:
latencies, failures, and how core's health report agrees with the predicted one.

  --drive URL                     base URL of core's API, without /v1; http:// on loopback only
  --operator-token-file FILE      a bridge token of an admin, read anew for each call
  --token-file FILE, --token-stdin, with --identity-prefix URI
                                  enrolls with this bootstrap token instead of one that the admin makes
  --ingest HOST:PORT              the ingest listener: hosts forward to it, and manage themselves over it
  --management URL                where management requests go with the client certificate: a TLS edge
  --client-certificate-header H   or to the API itself, the certificate in the header that core trusts
  --ca-bundle FILE, --ingest-ca-bundle FILE
                                  the only authorities of servers; the second of the ingest listener, if another
  --hosts N                       1 to 100000; as many as the scenario has unless told
  --duration TIME                 at least five heartbeat intervals of core; these, or 60s, unless told
  --run NAME                      distinguishes this fleet; the time unless told
  --rate N, --concurrency N       steps begun in a second, and at once, at most; as they are due, and 64 unless told
  --keep                          goes on heartbeating after the report, until stopped

Exit codes: 0 done, 1 failed or the reports differ, 2 usage.
`;

const simulatedSeconds = { min: 300, max: 43_200, usual: 3600 };
const drivenSeconds = { min: 5, max: 86_400 };
const hostsMax = 100_000;

/** Reads the arguments. Throws a usage failure that repeats none of them. */
export const readOptions = (args: readonly string[]): Options => {
  const given = parseFlags(flags, args);
  const scenario = readScenario(given);
  const drive = given.drive === undefined ? undefined : readDrive(given, given.drive, scenario);
  if (drive === undefined) refuseDriveFlags(given);
  return {
    scenario,
    seed: readNumber("seed", given.seed, 0, Number.MAX_SAFE_INTEGER) ?? 1,
    durationSeconds: (drive ? undefined : readDuration(given.duration, simulatedSeconds)) ?? simulatedSeconds.usual,
    out: given.out,
    drive,
  };
};

const simulationFlags: readonly string[] = ["scenario", "seed", "duration", "out", "json"];

const refuseDriveFlags = (given: Given): void => {
  const wrong = Object.entries(given).find(([name, value]) => Boolean(value) && !simulationFlags.includes(name));
  if (wrong) throw usageFailure(`--${wrong[0]} needs --drive`);
};

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
  if (tokenFile !== undefined && fromStdin) throw usageFailure("takes one of --token-file and --token-stdin");
  if (identityPrefix === undefined || !URL.canParse(identityPrefix) || !identityPrefix.endsWith("/"))
    throw usageFailure("--identity-prefix must be an absolute URI that ends in /");
  return { tokenFile, identityPrefix };
};

const readManagement = (given: Given, url: string): DriveRequest["management"] => {
  const { management, ingest, "client-certificate-header": header } = given;
  if (management !== undefined && header !== undefined)
    throw usageFailure("takes one of --management and --client-certificate-header");
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
