import { Option } from "commander";
import type { Commands } from "../terminal/command.ts";

/** Declares every command. A new one is one line here, and its work one function of the file that it loads. */
export const declareCommands = ({ add }: Commands): void => {
  add("login", {
    summary: "Sign in: in the browser of this machine, or with --device on another one",
    options: [new Option("--device", "show a code to type at another machine's browser")],
    load: async () => (await import("./session.ts")).login,
  });
  add("logout", {
    summary: "End the session and forget its token",
    load: async () => (await import("./session.ts")).logout,
  });
  add("whoami", {
    summary: "Show who you are and your scopes",
    load: async () => (await import("./session.ts")).showWhoami,
  });
  add("sessions list", {
    summary: "List sessions of programs",
    options: [new Option("--everyone", "of every person, for an admin")],
    load: async () => (await import("./session.ts")).showSessions,
  });
  add("sessions revoke <id>", {
    summary: "Revoke a session: its token is rejected at once",
    load: async () => (await import("./session.ts")).revokeOneSession,
  });
};
