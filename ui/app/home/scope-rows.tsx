import { For } from "solid-js";
import { type Scope, scopes } from "../../../proto/operator/scopes.ts";
import { Icon } from "../icons/icon.tsx";

const allows: Record<Scope, string> = {
  read: "Sign in, and see your own scopes and how the directory was last synced.",
  audit: "See the health of every collector, export it, and read the audit log.",
  admin: "Enroll and revoke collectors and publish their configs, through the API.",
};

/** The three scopes: which are held, and what each allows. */
export const ScopeRows = (props: { held: readonly Scope[] }) => (
  <ul class="scope-rows">
    <For each={scopes}>
      {(scope) => (
        <li data-held={props.held.includes(scope) ? "" : undefined}>
          <code>{scope}</code>
          <span class="scope-held">
            <Icon name={props.held.includes(scope) ? "check" : "close"} />
            {props.held.includes(scope) ? "held" : "not held"}
          </span>
          <span>{allows[scope]}</span>
        </li>
      )}
    </For>
  </ul>
);
