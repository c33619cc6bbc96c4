import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Runs a program to its end; rejects unless it exits with 0. */
export const execute = promisify(execFile);
