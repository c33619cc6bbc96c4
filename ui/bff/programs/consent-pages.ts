import { html } from "hono/html";
import type { Scope } from "../../../proto/operator/scopes.ts";
import { plainLine } from "../../../proto/plain-text.ts";
import { cardPage, type Html, type PageLinks } from "../page-frame.ts";

/** Who consents, as core reports them now. */
export interface Consenting {
  displayName: string;
  email: string;
  scopes: readonly Scope[];
}

const allows: Readonly<Record<Scope, string>> = {
  read: "see who you are and the state of the directory",
  audit: "read the fleet, configs and the audit log, and export them",
  admin: "change policies, tokens, configs and certificates",
};

/** Renders the question whether a program may act as the person. The form sends the decision to `action`, which names the request. */
export const consentPage = ({
  person,
  clientName,
  origin,
  action,
  links,
}: {
  person: Consenting;
  clientName: string;
  /** Where the program runs, in words. */
  origin: string;
  action: string;
  links: PageLinks;
}): Html => {
  const card = html`<h1>Sign in <bdi>${plainLine(clientName)}</bdi>?</h1>
<p>This program asks to act as <strong><bdi>${plainLine(person.displayName)}</bdi></strong> (<bdi>${plainLine(person.email)}</bdi>). ${origin}</p>
<p>For an hour at most, and until you sign out here or your session ends, it may:</p>
<ul class="login-list">
${person.scopes.map((scope) => html`<li><strong>${scope}</strong>: ${allows[scope]}</li>`)}
</ul>
<div class="login-notice" role="status">
<h2>Allow only what you started yourself</h2>
<p>Refuse if somebody sent you this link or code. Core records who allowed it.</p>
</div>
<form class="login-decision" method="post" action="${action}">
<button class="button button-primary login-button" name="decision" value="allow">Allow</button>
<button class="button login-button" name="decision" value="refuse">Refuse</button>
</form>`;
  return cardPage({ title: "Sign in a program", card, links });
};

/** Renders the form for the code that a device shows. */
export const devicePage = ({ fault, links }: { fault?: string; links: PageLinks }): Html => {
  const card = html`<h1>Sign in a device</h1>
${fault && html`<div class="login-refusal" role="alert"><h2>${fault}</h2><p>Codes expire after ten minutes: start again on the device.</p></div>`}
<p class="login-lead">Type the code that the device shows.</p>
<form class="login-form" method="get" action="/device">
<div class="login-field">
<label for="user_code">Code</label>
<input class="login-code" id="user_code" name="user_code" required maxlength="16" autocomplete="off" autocapitalize="characters" spellcheck="false" placeholder="XXXX-XXXX" autofocus>
</div>
<button class="button button-primary login-button">Continue</button>
</form>`;
  return cardPage({ title: "Sign in a device", card, links });
};

/** Renders the end of a sign-in that does not redirect, or a request that cannot be granted. */
export const outcomePage = ({
  title,
  text,
  isFault = false,
  links,
}: {
  title: string;
  text: string;
  isFault?: boolean;
  links: PageLinks;
}): Html => {
  const card = isFault
    ? html`<h1>${title}</h1><div class="login-refusal" role="alert"><p>${text}</p></div>`
    : html`<h1>${title}</h1><p>${text}</p>`;
  return cardPage({ title, card, links });
};
