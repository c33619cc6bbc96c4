import * as v from "valibot";
import { isTrustedProxy } from "../client-address.ts";
import type { CoreClient } from "../core-client.ts";
import type { PageLinks } from "../page-frame.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import { devicePath } from "../sign-in/fresh-sign-in.ts";
import { type AskPerson, type ConsentQuestion, callCore } from "./ask-person.ts";
import { consentPage, devicePage, outcomePage } from "./consent-pages.ts";

const Device = v.object({
  client_name: v.string(),
  remote_addr: v.string(),
  created_at: v.string(),
});

/** Creates the pages on which a person approves a machine without a browser (RFC 8628, 3.3). */
export const createDevicePages = ({
  core,
  askPerson,
  links,
  trustedProxies,
}: {
  core: CoreClient;
  askPerson: AskPerson;
  links: PageLinks;
  trustedProxies: readonly string[];
}): { ask: Handler; decide: Handler } => {
  /** Without trusted proxies nobody knows whether a proxy is before web. */
  const isClients = (address: string) =>
    trustedProxies.length > 0 && !isTrustedProxy(trustedProxies, address);
  const unknown = (c: WebContext) =>
    c.html(devicePage({ fault: "No device waits for this code", links }), 404);
  return {
    ask: (c) => {
      const userCode = queryOf(c).get("user_code") ?? "";
      return askPerson(c, questionOf(userCode), async (person) => {
        if (userCode === "") return c.html(devicePage({ links }));
        const path = `/operator/devices/${encodeURIComponent(userCode.slice(0, 64))}`;
        const found = await callCore(core, c, { path, session: person.session });
        if (found === null) return unknown(c);
        const {
          client_name: clientName,
          remote_addr: address,
          created_at: at,
        } = v.parse(Device, found);
        const page = consentPage({
          person,
          clientName,
          origin: `It asked at ${at.slice(11, 16)} UTC${isClients(address) ? ` from the address ${address}` : ""}.`,
          action: questionOf(userCode).returnTo,
          links,
        });
        return c.html(page);
      });
    },
    decide: (c) => {
      const userCode = queryOf(c).get("user_code") ?? "";
      return askPerson(c, questionOf(userCode), async (person) => {
        const approved = (await readForm(c)).decision === "allow";
        const recorded = await callCore(core, c, {
          path: `/operator/devices/${encodeURIComponent(userCode.slice(0, 64))}/decision`,
          session: person.session,
          body: { approved, remote_addr: c.get("remoteAddress") },
        });
        if (recorded === null) return unknown(c);
        const [title, text] = approved
          ? ["The device is signed in", "You can close this page and continue on the device."]
          : ["You refused the device", "It is not signed in. You can close this page."];
        return c.html(outcomePage({ title, text, links }));
      });
    },
  };
};

/** Typing a code changes nothing; what it leads to lets a program in. */
const questionOf = (userCode: string): ConsentQuestion =>
  userCode === ""
    ? { returnTo: devicePath, needsFresh: false }
    : {
        returnTo: `${devicePath}?${new URLSearchParams({ user_code: userCode })}`,
        needsFresh: true,
      };
