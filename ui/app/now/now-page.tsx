import { createSignal, Show } from "solid-js";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { Access } from "./access.tsx";
import { Needs } from "./needs.tsx";
import "../design/page.css";
import "./now.css";

/** `/`: what needs a person, for operators with scope `audit`, and who is signed in with which scopes. */
export const NowPage = () => {
  const { session } = usePageContext();
  const [isLoaded, setLoaded] = createSignal(false);
  const seesFleet = () => session()?.scopes.includes("audit");
  return (
    <Show when={session()}>
      {(known) => (
        <div class="page now">
          <Show when={seesFleet()} fallback={<Title />}>
            <Needs onLoad={() => setLoaded(true)} />
          </Show>
          {/* Below the lines only once they are there, so that nothing moves. */}
          <Show when={isLoaded() || !seesFleet()}>
            <Access session={known()} />
          </Show>
        </div>
      )}
    </Show>
  );
};

const Title = () => {
  createPageTitle(() => "Now");
  return <h1>Now</h1>;
};
