"""Call the service from a task or a script."""

from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.hooks.workflow import WorkflowHook


def forget_inbox(name):
    hook = WorkflowHook("workflow_default")
    try:
        waiting = hook.list_messages(name)
    except NotFoundError:
        return 0
    hook.delete_inbox(name)
    return len(waiting)
