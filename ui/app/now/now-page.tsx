import { Show } from "solid-js";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { Access } from "./access.tsx";
import { Needs } from "./needs.tsx";
import "../design/page.css";
import "./now.css";

/** `/`: what needs a person, for operators with scope `audit`, and who is signed in with which scopes. */
export const NowPage = () => {
  const { session } = usePageContext();
  return (
    <Show when={session()}>
      {(known) => (
        <div class="page now">
          <Show when={known().scopes.includes("audit")} fallback={<Title />}>
            <Needs />
          </Show>
          <Access session={known()} />
        </div>
      )}
    </Show>
  );
};

const Title = () => {
  createPageTitle(() => "Now");
  return <h1>Now</h1>;
};
