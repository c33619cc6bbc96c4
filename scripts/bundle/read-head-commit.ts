import { git } from "../repository-files.ts";

/** Runs git; returns `fallback` outside a repository. */
const gitOr = (fallback: string, ...args: string[]): string => {
  try {
    return git(...args);
  } catch {
    return fallback;
  }
};

/** Returns the commit that is checked out and a newline; `unknown` outside a repository. */
export const readHeadCommit = (): string => `${gitOr("unknown", "rev-parse", "HEAD")}\n`;

/** Returns the time of the commit that is checked out; 1970 outside a repository. */
export const readCommitTime = (): Date =>
  new Date(Number(gitOr("0", "show", "--no-patch", "--format=%ct", "HEAD")) * 1000);
