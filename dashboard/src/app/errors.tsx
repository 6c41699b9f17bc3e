/** What is shown when a page itself breaks, or is no longer there. */

import { Component, type ReactNode } from "react";
import { Button } from "@/ui/button";
import { Empty, ErrorPanel } from "@/ui/states";
import { LinkButton } from "@/ui/button";
import { Page } from "@/ui/page";

interface Caught {
  error: Error | null;
}

/** Keeps a broken page from taking the rest with it. */
export class Boundary extends Component<{ children: ReactNode; at: string }, Caught> {
  override state: Caught = { error: null };

  static getDerivedStateFromError(error: Error): Caught {
    return { error };
  }

  override componentDidUpdate(before: { at: string }): void {
    if (before.at !== this.props.at && this.state.error) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const gone = /dynamically imported module|module script|Unable to preload/i.test(error.message);
    if (gone) {
      return (
        <Empty title="There is a newer version of this page" icon="retry" action={<Button look="primary" onClick={() => location.reload()}>Reload</Button>}>
          The server has been updated, or cannot be reached.
        </Empty>
      );
    }
    return <ErrorPanel problem={error} onRetry={() => this.setState({ error: null })} />;
  }
}

export function NotFound() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page" icon="search" action={<LinkButton href="/">To the overview</LinkButton>} />
    </Page>
  );
}
