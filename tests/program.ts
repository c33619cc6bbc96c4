import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { systemClock } from "../kit/clock.ts";
import type { LabPki } from "../scripts/lab-ca/pki.ts";

/** A program of ours as a process, with what it logged. */
export interface Program {
  child: ChildProcess;
  /** The lines of its stdout, as JSON. */
  records: Record<string, unknown>[];
  stderr: string;
  /** Its exit code, null after a signal; once all that it said has been read. */
  exited: Promise<number | null>;
  hasExited: boolean;
}

/** Starts a file of this repository under this process's Node, with this environment and no more. */
export const startProgram = (path: string, args: readonly string[], env: Record<string, string> = {}): Program => {
  const file = new URL(`../${path}`, import.meta.url).pathname;
  const child = spawn(process.execPath, [file, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const program: Program = {
    child,
    records: [],
    stderr: "",
    // A child's "exit" may come before its last lines.
    exited: once(child, "close").then(([code]) => {
      program.hasExited = true;
      return code as number | null;
    }),
    hasExited: false,
  };
  createInterface(child.stdout).on("line", (line) => program.records.push(JSON.parse(line)));
  child.stderr.on("data", (chunk) => {
    program.stderr += chunk;
  });
  return program;
};

/** The first record with this message; throws when it has not come within 90 seconds, or cannot come. */
export const logged = async (program: Program, message: string): Promise<Record<string, unknown>> => {
  const deadline = Date.now() + 90_000;
  for (;;) {
    const record = program.records.find(({ msg }) => msg === message);
    if (record !== undefined) return record;
    if (Date.now() > deadline || program.hasExited) throw new Error(`no ${message}: ${program.stderr}`);
    await systemClock.sleep(20);
  }
};

/** SIGTERM; resolves with the exit code once the process is gone. */
export const stopProgram = (program: Program): Promise<number | null> => {
  program.child.kill("SIGTERM");
  return program.exited;
};

/** The environment of a core with a lab's certificates, enrollment required at ingest, on free ports. */
export const labCoreEnvironment = (options: {
  databaseUrl: string;
  pki: LabPki;
  authTokenSecret: string;
}): Record<string, string> => ({
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_DATABASE_URL: options.databaseUrl,
  SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
  SVC_AUTH_TOKEN_SECRET: options.authTokenSecret,
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere/directory.json",
  SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
  SVC_INGEST_SERVER_CERT_FILE: options.pki.ingest.certFile,
  SVC_INGEST_SERVER_KEY_FILE: options.pki.ingest.keyFile,
  SVC_INGEST_CLIENT_CA_FILE: options.pki.enrollmentCa.certFile,
  SVC_INGEST_REQUIRE_ENROLLMENT: "true",
  SVC_ENROLLMENT_CA_CERT_FILE: options.pki.enrollmentCa.certFile,
  SVC_ENROLLMENT_CA_KEY_FILE: options.pki.enrollmentCa.keyFile,
});
