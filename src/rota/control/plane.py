"""The control plane as an application has it: `app.control`, everything that operators see and do, by who acts.

Each method is one of the functions of this package, on a connection of the application's, after a look at who may do it; what is
changed is written down in the same transaction. The command line and the API call the same methods. Noun by noun they are in the
modules beside this one, which have nothing of their own but what `Plane` has.
"""

from __future__ import annotations

from rota.control.plane_alerts import AlertPlane
from rota.control.plane_base import APPLICATION, Application, Plane
from rota.control.plane_history import HistoryPlane
from rota.control.plane_jobs import JobPlane
from rota.control.plane_overview import OverviewPlane
from rota.control.plane_people import People
from rota.control.plane_queues import QueuePlane
from rota.control.plane_schedules import SchedulePlane
from rota.control.plane_tasks import TaskPlane

__all__ = ["APPLICATION", "Application", "ControlPlane", "Plane"]


class ControlPlane(TaskPlane, JobPlane, HistoryPlane, AlertPlane, QueuePlane, SchedulePlane, OverviewPlane, People):
    """What operators see and do. Every method raises Forbidden when the actor may not do it, and then nothing was asked."""
